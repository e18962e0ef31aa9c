// What is not trusted in a cache directory: folders and files that others could have written, links, code for
// this CPU.
#include <api/settings.h>
#include <autotune/tuning_store.h>
#include <core/arch.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fcntl.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_cache.h>
#include <runtime/trust.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <functional>
#include <memory>

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

const std::string kSameShard = kKey.substr(0, 2) + std::string(30, 'f');

KernelSource source() {
  KernelSource text;
  text.key = kKey;
  text.spec = "f16_d64_none sm_80";
  text.arch.name = "sm_80";
  text.threads = 128;
  return text;
}

struct Fixture {
  TemporaryDirectory directory;
  CapturedLog log;
  fs::path root = directory / "cache";
  DiskCache own{root, kReadWrite};
  DiskCache pack{root, kReadOnly};
  fs::path file = own.path_of("sm_80", kKey);

  Fixture() { REQUIRE(own.store(small_binary())); }

  /// Returns the root, each folder on the path, and the file.
  std::vector<fs::path> parts() const {
    std::vector<fs::path> all = {root};
    for (const fs::path& name : file.lexically_relative(root)) all.push_back(all.back() / name);
    return all;
  }
  bool both_load() const { return own.load("sm_80", kKey) && pack.load("sm_80", kKey); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "files that a group or everyone may write are not used, nor files in such folders") {
  for (const fs::path& part : parts()) {
    const unsigned before = mode_of(part);
    for (const unsigned bits : {0020u, 0002u, 0022u}) {
      const std::string who = bits == 0020u ? "its group" : "every user";
      CAPTURE(part);
      CAPTURE(bits);
      REQUIRE(both_load());
      fs::permissions(part, fs::perms(before | bits));
      const CapturedLog warnings;
      std::string untrusted;
      CHECK_FALSE(pack.load("sm_80", kKey, &untrusted));
      CHECK(untrusted.find(who + " may write to " + part.native()) != std::string::npos);
      CHECK(untrusted.find("`chmod -R go-w " + part.native() + "`") != std::string::npos);
      CHECK_FALSE(own.load("sm_80", kKey, &untrusted));
      CHECK(untrusted.find(" may write to " + part.native()) != std::string::npos);
      if (part == file) {
        CHECK_FALSE(fs::exists(file));  // in one's own directory it is replaced, like a damaged file
        REQUIRE(own.store(small_binary()));
      } else {
        CHECK_FALSE(own.store(small_binary(kSameShard)));
        { const auto lock = own.lock("sm_80", kKey); }
        CHECK(own.prune(0).files == 0);
        fs::permissions(part, fs::perms(before));
      }
    }
  }
  CHECK(both_load());
}

TEST_CASE_FIXTURE(Fixture, "one warning per folder, however many kernels are requested and stored") {
  fs::permissions(root / "v2", fs::perms(0777));
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(own.load("sm_80", kKey));
    CHECK_FALSE(own.store(small_binary()));
    CHECK_FALSE(pack.load("sm_80", kKey));
  }
  CHECK(log.lines() == 1);
  CHECK(log.has("cache directory " + root.native() + " is not used: every user may write to " +
                (root / "v2").native()));
  CHECK(log.has("FA2_CACHE_TRUST=1"));
}

TEST_CASE_FIXTURE(Fixture, "files of another user are not used, nor files in their folders") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a folder to another user");
    return;
  }
  for (const fs::path& part : parts()) {
    CAPTURE(part);
    REQUIRE(both_load());
    REQUIRE(::lchown(part.c_str(), 12345, 12345) == 0);
    std::string untrusted;
    CHECK_FALSE(pack.load("sm_80", kKey, &untrusted));
    CHECK(untrusted.find(part.native() + " belongs to user 12345, not to root") != std::string::npos);
    CHECK(untrusted.find("`chown -R 0 " + part.native() + "`") != std::string::npos);
    CHECK_FALSE(own.load("sm_80", kKey));
    if (part == file) {
      CHECK_FALSE(fs::exists(file));
    } else {
      CHECK_FALSE(own.store(small_binary()));
      REQUIRE(::lchown(part.c_str(), 0, 0) == 0);
    }
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "a symbolic link below the root is not followed, not even with FA2_CACHE_TRUST=1; the root "
                  "may be a link") {
  fs::create_symlink(root, directory / "link");
  CHECK(DiskCache(directory / "link", kReadOnly).load("sm_80", kKey));

  const std::vector<fs::path> all = parts();
  for (const char* trust : {"0", "1"}) {
    const ScopedEnvironment variable("FA2_CACHE_TRUST", trust);
    for (std::size_t i = 1; i < all.size(); ++i) {
      CAPTURE(all[i]);
      REQUIRE(both_load());
      const fs::path away = directory / "away";
      fs::rename(all[i], away);
      fs::create_symlink(away, all[i]);
      std::string untrusted;
      CHECK_FALSE(pack.load("sm_80", kKey, &untrusted));
      CHECK(untrusted.find(all[i].native() + " is a symbolic link") != std::string::npos);
      CHECK(own.prune(0).files == (all[i] == file ? 1u : 0u));  // the link, never its target
      CHECK(fs::exists(away));
      if (all[i] != file) {
        CHECK_FALSE(own.store(small_binary(kSameShard)));
        fs::remove(all[i]);
      }
      fs::rename(away, all[i]);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "FA2_CACHE_TRUST=1 uses files that others could have written") {
  for (const fs::path& part : parts()) fs::permissions(part, fs::perms(0777));
  CHECK_FALSE(pack.load("sm_80", kKey));
  for (const char* value : {"host", "yes"}) {
    const ScopedEnvironment trust("FA2_CACHE_TRUST", value);
    CHECK_FALSE(pack.load("sm_80", kKey));
  }
  CHECK(log.has("FA2_CACHE_TRUST = \"yes\", must be one of 0, host, 1; using 0"));
  const ScopedEnvironment trust("FA2_CACHE_TRUST", "1");
  CHECK(both_load());
  CHECK(own.store(small_binary(kSameShard)));
}

TEST_CASE_FIXTURE(Fixture, "entries() names what is not trusted, and pruning leaves it alone") {
  const std::string other(32, 'e'), third(32, 'f');
  REQUIRE(own.store(small_binary(other)));
  REQUIRE(own.store(small_binary(third)));
  const fs::path folder = file.parent_path();
  fs::permissions(folder, fs::perms(0770));
  fs::permissions(own.path_of("sm_80", third), fs::perms(0606));
  const auto entries = pack.entries();
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].binary.key == other);
  CHECK_FALSE(entries[0].untrusted);
  CHECK(entries[1].untrusted);
  CHECK(entries[1].path == own.path_of("sm_80", third));
  CHECK(entries[1].damage.find("every user may write to " + entries[1].path.native()) == 0);
  CHECK(entries[2].untrusted);
  CHECK(entries[2].path == folder);
  CHECK(entries[2].damage.find("its group may write to " + folder.native()) == 0);
  CHECK(own.prune(0).files == 2);
  CHECK(fs::exists(file));
}

TEST_CASE_FIXTURE(
    Fixture, "interpreted kernels, which are code for this CPU, come from packs only if that is permitted") {
  KernelBinary interpreted = small_binary();
  interpreted.arch = interpreter_arch().name;
  REQUIRE(own.store(interpreted));
  CHECK(own.load("interpreter", kKey));
  std::string untrusted;
  CHECK_FALSE(pack.load("interpreter", kKey, &untrusted));
  CHECK(untrusted.find("code for this CPU: set FA2_CACHE_TRUST=host") != std::string::npos);
  CHECK_FALSE(pack.load("interpreter", std::string(32, '0'), &(untrusted = "")));
  CHECK(untrusted.empty());  // there was no file that could be trusted
  CHECK(pack.load("sm_80", kKey));
  CHECK(log.lines() == 1);
  for (const char* value : {"host", "1"}) {
    const ScopedEnvironment trust("FA2_CACHE_TRUST", value);
    CHECK(pack.load("interpreter", kKey));
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "a kernel, and the error without a compiler, name the directory that was not trusted") {
  fs::permissions(root / "v2", fs::perms(0775));
  const std::string why = "its group may write to " + (root / "v2").native();
  KernelCache compiling(std::make_shared<FakeCompiler>(), stores_of({pack}), nullptr, JitMode::on);
  const CachedKernel kernel = compiling.get(source());
  CHECK(kernel.origin == KernelOrigin::compiled);
  CHECK(kernel.notes.find(why) != std::string::npos);
  CHECK(compiling.get(source()).notes == kernel.notes);

  KernelCache off(std::make_shared<FakeCompiler>(), stores_of({pack}), nullptr, JitMode::off);
  try {
    off.get(source());
    FAIL("a kernel came from an untrusted directory");
  } catch (const Unavailable& error) {
    CHECK(std::string(error.what()).find(why) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "tuning records that others could have written are neither used nor extended") {
  const fs::path records = root / kTuningFile;
  TuningRecord record;
  record.device = "GPU A";
  record.arch = "sm_90a";
  record.bucket = bucket_of({{.head_dim = 128, .seqlen_q = 4096, .seqlen_k = 4096}, {}});
  TuningStore(records).add(record);
  REQUIRE(TuningStore(records).records().size() == 1);
  const std::string before = read_text(records);
  std::string why;
  SUBCASE("the directory") {
    fs::permissions(root, fs::perms(0720));
    why = "its group may write to " + root.native();
  }
  SUBCASE("the file") {
    fs::permissions(records, fs::perms(0602));
    why = "every user may write to " + records.native();
  }
  SUBCASE("a link") {
    fs::rename(records, directory / "elsewhere");
    fs::create_symlink(directory / "elsewhere", records);
    why = records.native() + " is a symbolic link";
  }
  TuningStore store(records);
  CHECK(store.records().empty());
  CHECK(TuningStore("", {records}).records().empty());
  CHECK(log.has(records.native() + " is not used: " + why));
  store.add(record);
  CHECK(log.has("tuning records are not kept on disk: " + why));
  CHECK(log.lines() == 2);
  CHECK(read_text(records) == before);
}

TEST_CASE_FIXTURE(Fixture, "root's pack serves every user, whatever umask it was made with") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  fs::permissions(directory.path(), fs::perms(0755));
  make_readable_by_all(root);
  const pid_t child = fork_child([&] {
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) return 2;
    return pack.load("sm_80", kKey) ? 0 : 3;
  });
  CHECK(wait_for(child) == 0);
}
