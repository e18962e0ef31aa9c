// One cache directory: hits, damage, trust, failures of the disk, pruning, locks.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/disk_cache.h>
#include <runtime/file.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/sanitizers.h>
#include <tests/support/temporary_directory.h>

#include <csignal>

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

constexpr std::time_t kHour = 3600;

struct Fixture {
  TemporaryDirectory directory;
  CapturedLog log;
  DiskCache cache{directory / "cache", kReadWrite};
  fs::path path = cache.path_of("sm_80", kKey);
};

std::size_t count_files(const fs::path& root) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

std::string key_number(int number) {
  return std::string(31, 'a') + static_cast<char>('0' + number);
}

/// Returns whether some process holds the lock of this file.
bool is_locked(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "kernels of an older format are not used, and one message names their folder") {
  CHECK_FALSE(cache.outdated_folder().has_value());
  fs::create_directories(cache.root() / "v1" / "sm_80");
  fa2::log().set_level(spdlog::level::info);
  for (int i = 0; i < 2; ++i) CHECK(DiskCache(cache.root(), kReadWrite).outdated_folder().has_value());
  CHECK(cache.entries().empty());
  CHECK(log.text() ==
        (cache.root() / "v1").native() + ": kernels of an older format are not used; remove the folder\n");
}

TEST_CASE_FIXTURE(Fixture, "a stored kernel is loaded, from private files") {
  CHECK_FALSE(cache.load("sm_80", kKey).has_value());
  CHECK_FALSE(fs::exists(cache.root()));  // a look-up creates nothing
  REQUIRE(cache.store(small_binary()));

  const auto binary = cache.load("sm_80", kKey);
  REQUIRE(binary.has_value());
  CHECK(binary->code == small_binary().code);
  CHECK(path == cache.root() / "v2" / "sm_80" / "01" / (kKey + ".fa2k"));
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(path.parent_path()) == 0700);
  CHECK(mode_of(cache.root()) == 0700);
  CHECK(count_files(cache.root()) == 1);
  CHECK_FALSE(cache.load("sm_86", kKey).has_value());
  CHECK(DiskCache(cache.root(), kReadOnly).load("sm_80", kKey).has_value());
  CHECK(log.lines() == 0);
}

TEST_CASE_FIXTURE(Fixture, "storing again replaces the file") {
  REQUIRE(cache.store(small_binary(kKey, "first")));
  REQUIRE(cache.store(small_binary(kKey, "second")));
  CHECK(cache.load("sm_80", kKey)->code == bytes_of("second"));
  CHECK(count_files(cache.root()) == 1);
}

TEST_CASE_FIXTURE(Fixture, "truncation at every length and a flipped bit at every byte are misses") {
  REQUIRE(cache.store(small_binary()));
  const std::string good = read_text(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    write_text(path, good.substr(0, i));
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
    CHECK_FALSE(fs::exists(path));

    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    write_text(path, flipped);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
    CHECK_FALSE(fs::exists(path));
  }
  CHECK(log.lines() == 1);  // one warning per file, whatever happens to it
  CHECK(log.has(path.native() + " is removed: truncated: 0 of at least"));
  write_text(path, good);
  CHECK(cache.load("sm_80", kKey).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a stale format, a foreign file and an empty file are misses that get replaced") {
  REQUIRE(cache.store(small_binary()));
  std::string contents = read_text(path);
  SUBCASE("stale format") {
    contents[4] = 9;
    write_text(path, contents);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
    CHECK(log.has("format version 9, expected 1"));
  }
  SUBCASE("another key") {
    REQUIRE(cache.store(small_binary(key_number(1))));
    fs::copy_file(cache.path_of("sm_80", key_number(1)), path, fs::copy_options::overwrite_existing);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
    CHECK(log.has("it holds kernel " + key_number(1) + " for sm_80"));
  }
  SUBCASE("another arch") {
    path = cache.path_of("sm_90a", kKey);
    write_text(path, contents);
    CHECK_FALSE(cache.load("sm_90a", kKey).has_value());
    CHECK(log.has("for sm_80"));
  }
  SUBCASE("empty file") {
    write_text(path, "");
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
  }
  SUBCASE("directory") {
    fs::remove(path);
    fs::create_directory(path);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
    CHECK(log.has("not a regular file"));
  }
  SUBCASE("pipe, which must not block") {
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
  }
  SUBCASE("larger than any kernel") {
    fs::resize_file(path, kMaxFileBytes + 1);
    CHECK_FALSE(cache.load("sm_80", kKey).has_value());
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(log.lines() == 1);
  REQUIRE(cache.store(small_binary()));
  CHECK(cache.load("sm_80", kKey).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a damaged file in a read-only directory stays") {
  REQUIRE(cache.store(small_binary()));
  write_text(path, "garbage");
  const DiskCache read_only(cache.root(), kReadOnly);
  CHECK_FALSE(read_only.load("sm_80", kKey).has_value());
  CHECK(fs::exists(path));
  CHECK_FALSE(read_only.store(small_binary()));
  CHECK(read_only.prune(0).files == 0);
  CHECK(read_text(path) == "garbage");
}

TEST_CASE_FIXTURE(Fixture,
                  "in a directory that cannot be written, kernels are not cached, with one warning") {
  write_text(directory / "file", "");
  for (const fs::path& root :
       {directory / "file" / "below", directory / "file", fs::path("/proc/fa2-cache")}) {
    CAPTURE(root);
    const std::size_t before = log.lines();
    const DiskCache unwritable(root, kReadWrite);
    CHECK_FALSE(unwritable.load("sm_80", kKey).has_value());
    CHECK_FALSE(unwritable.store(small_binary()));
    CHECK_FALSE(unwritable.store(small_binary()));
    { const auto lock = unwritable.lock("sm_80", kKey); }
    CHECK(unwritable.entries().empty());
    CHECK(unwritable.prune(0).files == 0);
    CHECK(log.lines() == before + 1);
    CHECK(log.has("kernels are not cached on disk: cannot create directory"));
  }
  CHECK(fs::is_regular_file(directory / "file"));
}

TEST_CASE_FIXTURE(Fixture, "a write that fails half-way leaves neither the file nor a temporary file") {
  const KernelBinary large = small_binary(kKey, std::string(100000, 'c'));
  const pid_t child = fork_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};  // like a full disk: the first part fits, the rest does not
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    return cache.store(large) || !log.has("cannot write") ? 1 : 0;
  });
  CHECK(wait_for(child) == 0);
  REQUIRE(fs::exists(path.parent_path()));
  CHECK(count_files(cache.root()) == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a hit updates the time of a file older than a day, but only in the user's directory") {
  REQUIRE(cache.store(small_binary()));
  age(path, 30 * 24 * kHour);
  REQUIRE(DiskCache(cache.root(), kReadOnly).load("sm_80", kKey).has_value());
  CHECK(modified(path) < std::time(nullptr) - 29 * 24 * kHour);
  REQUIRE(cache.load("sm_80", kKey).has_value());
  CHECK(modified(path) > std::time(nullptr) - kHour);

  age(path, 2 * kHour);
  REQUIRE(cache.load("sm_80", kKey).has_value());
  CHECK(modified(path) < std::time(nullptr) - kHour);

  age(path, -30 * 24 * kHour);  // the clock was wrong
  REQUIRE(cache.load("sm_80", kKey).has_value());
  CHECK(modified(path) < std::time(nullptr) + kHour);
}

TEST_CASE_FIXTURE(Fixture, "entries() lists good and damaged files, with code on request") {
  CHECK(cache.entries().empty());
  REQUIRE(cache.store(small_binary(key_number(1))));
  REQUIRE(cache.store(small_binary(key_number(2))));
  write_text(cache.path_of("sm_80", key_number(3)), "garbage");
  fs::copy_file(cache.path_of("sm_80", key_number(1)), cache.path_of("sm_80", key_number(4)));

  const auto entries = cache.entries();
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].binary.key == key_number(1));
  CHECK(entries[0].binary.resources.registers == 168);
  CHECK(entries[0].binary.code.empty());
  CHECK(entries[0].file_bytes == fs::file_size(entries[0].path));
  CHECK(entries[0].last_used == modified(entries[0].path));
  CHECK(entries[1].damage.empty());
  CHECK(entries[2].damage == "truncated: 7 of at least 44 bytes");
  CHECK(entries[3].damage == "it holds kernel " + key_number(1) + " for sm_80");
  CHECK(entries[3].binary.key.empty());
  CHECK(cache.entries(true)[1].binary.code == small_binary().code);
}

TEST_CASE_FIXTURE(Fixture, "prune removes damaged files, then the least recently used") {
  for (int i = 0; i < 5; ++i) {
    REQUIRE(cache.store(small_binary(key_number(i))));
    age(cache.path_of("sm_80", key_number(i)), ((i * 3) % 5 + 1) * kHour);  // 1 4 2 5 3 hours
  }
  const auto damaged = cache.path_of("sm_80", key_number(9));
  write_text(damaged, "garbage");
  const std::uint64_t size = fs::file_size(cache.path_of("sm_80", key_number(0)));
  const auto kept = [&] {
    std::string keys;
    for (const CacheEntry& entry : cache.entries()) keys += entry.binary.key.back();
    return keys;
  };

  DiskCache::Pruned pruned = cache.prune(5 * size);
  CHECK(pruned.files == 1);
  CHECK(pruned.bytes == 7);
  CHECK_FALSE(fs::exists(damaged));
  CHECK(kept() == "01234");

  pruned = cache.prune(5 * size - 1);
  CHECK(pruned.files == 1);
  CHECK(pruned.bytes == size);
  CHECK(kept() == "0124");
  CHECK(cache.prune(3 * size).files == 1);
  CHECK(kept() == "024");
  CHECK(cache.prune(size).files == 2);
  CHECK(kept() == "0");
  CHECK(cache.prune(0).files == 1);
  CHECK(kept().empty());
}

TEST_CASE_FIXTURE(Fixture, "prune keeps what the system refuses to read, and the list says so") {
  if (FA2_SANITIZES_ADDRESSES) {
    MESSAGE("skipped: UBSan needs a pipe to judge a dynamic_cast, and the test leaves no file to open");
    return;
  }
  REQUIRE(cache.store(small_binary()));
  const pid_t child = fork_child([&] {
    const int unused = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const rlimit limit{static_cast<rlim_t>(unused + 1), static_cast<rlim_t>(unused + 1)};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;  // no further file can be opened
    const auto entries = cache.entries();
    if (entries.size() != 1 || !entries[0].spared || entries[0].untrusted) return 3;
    if (entries[0].damage.find("cannot open") == std::string::npos) return 4;
    return cache.prune(UINT64_MAX).files == 0 ? 0 : 5;
  });
  CHECK(wait_for(child) == 0);
  CHECK(cache.load("sm_80", kKey).has_value());
}

TEST_CASE_FIXTURE(Fixture, "prune keeps kernels whose format is a later fa2's") {
  REQUIRE(cache.store(small_binary()));
  std::string contents = read_text(path);
  contents[4] = 9;
  write_text(path, contents);
  CHECK(cache.prune(UINT64_MAX).files == 0);
  CHECK(read_text(path) == contents);
  CHECK(cache.entries()[0].damage == "format version 9, expected 1");
  contents[4] = 0;
  write_text(path, contents);
  CHECK(cache.prune(UINT64_MAX).files == 1);
}

TEST_CASE_FIXTURE(Fixture, "storing keeps the directory near its limit") {
  const ScopedEnvironment cap("FA2_CACHE_MAX_MB", "1");
  const std::string code(20000, 'c');
  for (int i = 0; i < 300; ++i) {
    REQUIRE(cache.store(small_binary(std::string(28, 'b') + std::to_string(1000 + i), code)));
  }
  // 6 MB were stored, and 50 files are 1 MB. Every store prunes with probability 1/10, so 100 in a row that
  // do not are practically impossible.
  CHECK(cache.entries().size() < 155);
  CHECK(log.lines() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a killed writer's temporary files are ignored, and pruned after an hour") {
  REQUIRE(cache.store(small_binary()));
  const fs::path temp = path.parent_path() / (kKey + ".4711.deadbeef.tmp");
  write_text(temp, read_text(path).substr(0, 50));
  const fs::path recent = path.parent_path() / (kKey + ".4712.deadbeef.tmp");
  write_text(recent, "");
  age(temp, kHour + 60);
  const fs::path future = path.parent_path() / (kKey + ".4713.deadbeef.tmp");
  write_text(future, "");
  age(future, -24 * kHour);  // the clock was wrong

  CHECK(cache.entries().size() == 1);
  CHECK(cache.load("sm_80", kKey).has_value());
  CHECK(cache.prune(UINT64_MAX).files == 2);
  CHECK_FALSE(fs::exists(temp));
  CHECK_FALSE(fs::exists(future));
  CHECK(fs::exists(recent));
  CHECK(fs::exists(path));
}

TEST_CASE_FIXTURE(Fixture, "the lock excludes others, ends with its holder, and is pruned only when free") {
  const fs::path lock_path = fs::path(path).replace_extension(".lock");
  {
    const auto lock = cache.lock("sm_80", kKey);
    CHECK(is_locked(lock_path));
    CHECK(mode_of(lock_path) == 0600);
    const FileDescriptor other(::open(lock_path.c_str(), O_RDWR | O_CLOEXEC));
    CHECK_FALSE(lock_file(other.get(), std::chrono::milliseconds(20)));  // the wait times out
    age(lock_path, 2 * kHour);
    CHECK(cache.prune(UINT64_MAX).files == 0);
    CHECK(fs::exists(lock_path));
  }
  CHECK_FALSE(is_locked(lock_path));
  CHECK(cache.prune(UINT64_MAX).files == 1);
  CHECK_FALSE(fs::exists(lock_path));
}

TEST_CASE_FIXTURE(Fixture, "a lock ends even if a child forked meanwhile lives on") {
  const fs::path lock_path = fs::path(path).replace_extension(".lock");
  const Pipe done;
  pid_t child = 0;
  {
    const auto lock = cache.lock("sm_80", kKey);
    child = fork_child([&] {
      done.receive();
      return 0;
    });
    CHECK(is_locked(lock_path));
  }
  CHECK_FALSE(is_locked(lock_path));
  done.send();
  CHECK(wait_for(child) == 0);
}

TEST_CASE_FIXTURE(Fixture, "a process killed while it holds the lock does not block others") {
  const fs::path lock_path = fs::path(path).replace_extension(".lock");
  const Pipe held;
  const pid_t child = fork_child([&] {
    const auto lock = cache.lock("sm_80", kKey);
    held.send();
    for (;;) ::pause();
    return 0;
  });
  held.receive();
  CHECK(is_locked(lock_path));
  ::kill(child, SIGKILL);
  CHECK(wait_for(child) == -SIGKILL);
  CHECK_FALSE(is_locked(lock_path));
  const auto lock = cache.lock("sm_80", kKey);
  CHECK(is_locked(lock_path));
}

TEST_CASE("the default directory follows FA2_CACHE_DIR, XDG_CACHE_HOME, HOME") {
  const ScopedEnvironment home("HOME", "/home/me");
  const ScopedEnvironment xdg("XDG_CACHE_HOME", "/xdg");
  const ScopedEnvironment own("FA2_CACHE_DIR", "/own");
  CHECK(default_cache_dir() == "/own");
  ::unsetenv("FA2_CACHE_DIR");
  CHECK(default_cache_dir() == "/xdg/fa2");
  ::unsetenv("XDG_CACHE_HOME");
  CHECK(default_cache_dir() == "/home/me/.cache/fa2");
  ::unsetenv("HOME");
  CHECK_FALSE(default_cache_dir().has_value());
}
