// Packs: what goes in comes out, the same bytes for the same contents, and no damage is believed.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/pack.h>
#include <runtime/compression.h>
#include <runtime/kernel_cache.h>
#include <runtime/pack_builder.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

namespace fs = std::filesystem;

const std::string kOther = "fedcba9876543210fedcba9876543210";
const std::string kCompressible(5000, 'x');

/// A pack with two kernels and a text.
struct Filled : PackBuilder {
  explicit Filled(const fs::path& path = "k.fa2pack") : PackBuilder(path) {
    store(small_binary(kOther, kCompressible));
    store(small_binary());
    set_text("tuning.jsonl", "{}\n");
  }
};

/// Returns why the bytes are no pack, or which kernels and texts of it cannot be read; empty if everything can.
std::string damage_of(const std::vector<std::byte>& bytes) {
  try {
    const auto pack = Pack::of_memory("k.fa2pack", bytes);
    for (const Pack::Row& row : pack->rows()) pack->contents(row);
    for (const CacheEntry& entry : pack->entries(true))
      if (!entry.damage.empty()) return entry.damage;
    return "";
  } catch (const CacheError& error) {
    return error.what();
  }
}

KernelSource source(const std::string& key = kKey) {
  KernelSource text;
  text.key = key;
  text.spec = "f16_d64_none tile_m=64";
  text.precompile_command = "fa2 precompile --arch sm_80 --out DIR";
  text.arch.name = "sm_80";
  text.threads = 128;
  return text;
}

}  // namespace

TEST_CASE("pack: what was compressed comes back, and only to its own size") {
  for (const std::string& text : {std::string(), std::string("a"), kCompressible}) {
    const std::vector<std::byte> original = bytes_of(text), small = compress(original);
    CHECK(decompress(small, original.size()) == original);
    CHECK_THROWS_AS(decompress(small, original.size() + 1), CacheError);
    if (!text.empty()) CHECK_THROWS_AS(decompress(small, original.size() - 1), CacheError);
  }
  CHECK_THROWS_AS(decompress(bytes_of("no zlib stream"), 10), CacheError);
}

TEST_CASE("pack: kernels and texts come back as they went in, but for the compile time") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "k.fa2pack";
  Filled(path).write();
  CHECK(mode_of(path) == 0644);
  const auto pack = Pack::open(path);
  const auto kernel = pack->load("sm_80", kKey);
  REQUIRE(kernel.has_value());
  CHECK(kernel->code == small_binary().code);
  CHECK(kernel->resources.registers == small_binary().resources.registers);
  CHECK(kernel->compile_ms == 0);
  CHECK(pack->load("sm_80", kOther)->code == bytes_of(kCompressible));
  CHECK_FALSE(pack->load("sm_90a", kKey).has_value());
  CHECK_FALSE(pack->load("sm_80", "0").has_value());
  CHECK(pack->text("tuning.jsonl") == "{}\n");
  CHECK(pack->text("other") == "");
  REQUIRE(pack->entries().size() == 2);
  CHECK(pack->entries()[0].path == path / "sm_80" / kKey);
  CHECK(pack->entries()[0].binary.code.empty());
  CHECK(pack->entries(true)[1].binary.code.size() == kCompressible.size());
  CHECK(pack->entries()[1].file_bytes < 1000);
}

TEST_CASE("pack: the same contents give the same bytes, in whatever order they come") {
  PackBuilder other("elsewhere.fa2pack");
  other.set_text("tuning.jsonl", "{}\n");
  KernelBinary slower = small_binary();
  slower.compile_ms = 9000;
  other.store(slower);
  other.store(small_binary(kOther, kCompressible));
  CHECK(other.encode() == Filled().encode());

  PackBuilder joined("joined.fa2pack");
  joined.add(*Pack::of_memory("k.fa2pack", Filled().encode()));
  joined.add(other);  // again, which changes nothing
  joined.set_text("tuning.jsonl", "{}\n");
  CHECK(joined.encode() == Filled().encode());
}

TEST_CASE("pack: kernels of one name with different code are not merged") {
  Filled first;
  PackBuilder second("other.fa2pack");
  second.store(small_binary(kKey, "other code"));
  CHECK_THROWS_WITH_AS(first.add(second), doctest::Contains("differs from the kernel of this name"),
                       CacheError);
  CHECK(first.encode() == Filled().encode());
}

TEST_CASE("pack: every truncation, every bit flip and every byte too many is noticed") {
  const std::vector<std::byte> good = Filled().encode();
  REQUIRE(damage_of(good).empty());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(damage_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}).empty());
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> flipped = good;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    CAPTURE(bit);
    CHECK_FALSE(damage_of(flipped).empty());
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  CHECK(damage_of(longer) ==
        std::to_string(longer.size()) + " bytes, expected " + std::to_string(good.size()));
}

TEST_CASE("pack: a damaged kernel costs a warning and is missing; the others are used") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  const fs::path path = directory / "k.fa2pack";
  Filled(path).write();
  const auto pack = Pack::open(path);
  const Pack::Row& row = pack->rows().front();
  std::string text = read_text(path);
  text[row.offset + row.stored / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << text;  // in place, under the open pack
  CHECK_FALSE(pack->load("sm_80", kKey).has_value());
  CHECK(log.has((path / "sm_80" / kKey).native() + " is not used: checksum differs"));
  CHECK(pack->load("sm_80", kOther).has_value());

  fs::resize_file(path, row.offset);  // a mapped file would kill the process now
  CHECK_FALSE(pack->load("sm_80", kOther).has_value());
  CHECK(log.has("truncated"));
}

TEST_CASE("pack: a cache searches packs and directories in their order, then compiles") {
  const TemporaryDirectory directory;
  Filled(directory / "k.fa2pack").write();
  const auto compiler = std::make_shared<FakeCompiler>();
  const auto cache = [&](JitMode jit) {
    return KernelCache(compiler, {open_store(directory / "empty"), open_store(directory / "k.fa2pack")},
                       nullptr, jit);
  };
  KernelCache off = cache(JitMode::off);
  const CachedKernel kernel = off.get(source());
  CHECK(kernel.origin == KernelOrigin::read_only_cache);
  CHECK(kernel.path == (directory / "k.fa2pack" / "sm_80" / kKey).native());
  CHECK(off.specs("sm_80").size() == 2);
  CHECK(cache(JitMode::on).get(source("0")).origin == KernelOrigin::compiled);
}

TEST_CASE("pack: a kernel of another version is refused, and the message says which version made it") {
  const CapturedLog log;
  const TemporaryDirectory directory;
  PackBuilder old(directory / "old.fa2pack");
  KernelBinary kernel = small_binary();
  kernel.library = "0.0.9";
  old.store(kernel);
  old.write();
  KernelCache cache(std::make_shared<FakeCompiler>(), {open_store(directory / "old.fa2pack")}, nullptr,
                    JitMode::off);
  const std::string note = (directory / "old.fa2pack" / "sm_80" / kKey).native() +
                           " is not used: fa2 0.0.9 made it from other sources than this fa2 " + version();
  CHECK_THROWS_WITH_AS(cache.get(source(kOther)), doctest::Contains(note.c_str()), Unavailable);
  CHECK(log.has(note));
}

TEST_CASE("pack: one that cannot be opened costs a warning, and errors say why it was not searched") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  const fs::path path = directory / "k.fa2pack";
  std::string why;
  SUBCASE("absent") {
    why = "No such file";
  }
  SUBCASE("a text") {
    write_text(path, std::string(100, 'x'));
    why = "it does not start with FA2PACK";
  }
  SUBCASE("another format") {
    Filled(path).write();
    std::string text = read_text(path);
    text[8] = 9;
    write_text(path, text);
    why = "format version 9, expected 1";
  }
  SUBCASE("a directory") {
    fs::create_directories(path);
    why = "not a regular file";
  }
  SUBCASE("others could have written it") {
    Filled(path).write();
    fs::permissions(path, fs::perms(0666));
    why = "every user may write to";
  }
  SUBCASE("a link") {
    Filled(directory / "target").write();
    fs::create_symlink(directory / "target", path);
    why = "is a symbolic link";
  }
  KernelCache cache(std::make_shared<FakeCompiler>(), {open_store(path)}, nullptr, JitMode::off);
  CHECK_THROWS_WITH_AS(cache.get(source()), doctest::Contains(why.c_str()), Unavailable);
  CHECK(log.has("pack " + path.native() + " is not used: "));
  CHECK(log.has(why));
}

TEST_CASE("pack: interpreted kernels, code for this CPU, run from a file only if the user says so") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  PackBuilder builder(directory / "k.fa2pack");
  KernelBinary kernel = small_binary();
  kernel.arch = "interpreter";
  builder.store(kernel);
  builder.write();
  std::string untrusted;
  CHECK_FALSE(Pack::open(directory / "k.fa2pack")->load("interpreter", kKey, &untrusted).has_value());
  CHECK(untrusted.find("FA2_CACHE_TRUST=host") != std::string::npos);
  // What is linked into the program is code of the program.
  const std::vector<std::byte> bytes = builder.encode();
  CHECK(Pack::of_memory("k", bytes)->load("interpreter", kKey).has_value());
  const ScopedEnvironment trust("FA2_CACHE_TRUST", "host");
  CHECK(Pack::open(directory / "k.fa2pack")->load("interpreter", kKey).has_value());
}

TEST_CASE("pack: writing one removes what a killed writer left an hour ago, and nothing else") {
  const TemporaryDirectory directory;
  const std::string left = "k.123.0123abcd.tmp", fresh = "k.123.0123abce.tmp";
  const std::vector<std::string> others = {"k.notes.tmp", "k.123.0123abc.tmp", "other.123.0123abcd.tmp",
                                           "k.123.0123abcd.tmp.bak"};
  for (const std::string& name : others) write_text(directory / name, "");
  write_text(directory / left, "");
  write_text(directory / fresh, "");
  for (const auto& entry : fs::directory_iterator(directory.path()))
    if (entry.path().filename() != fresh) age(entry.path(), 2 * 60 * 60);
  Filled(directory / "k.fa2pack").write();
  CHECK_FALSE(fs::exists(directory / left));
  CHECK(fs::exists(directory / fresh));
  for (const std::string& name : others) CHECK(fs::exists(directory / name));
}

TEST_CASE("pack: one in memory is added once it is sound") {
  static const std::vector<std::byte> bytes = Filled().encode();
  const std::size_t before = embedded_packs().size();
  CHECK_THROWS_AS(add_pack("short", bytes.data(), bytes.size() - 1), CacheError);
  CHECK_THROWS_AS(add_pack("none", bytes.data(), 0), CacheError);
  CHECK(embedded_packs().size() == before);
  add_pack("k", bytes.data(), bytes.size());
  REQUIRE(embedded_packs().size() == before + 1);
  CHECK(embedded_packs().back()->load("sm_80", kKey).has_value());
}
