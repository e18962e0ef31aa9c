// A kernel pack (FA2_CACHE_PATH) in front of the user's directory, as a subject, and the writing of one.
#include <runtime/kernel_cache.h>
#include <runtime/pack_builder.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <vector>

#include "kernels.h"
#include "subject.h"

namespace fa2::test {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 3> kPacked = {key_of("packed 0"), key_of("packed 1"), key_of("packed 2")};
const std::string kRecords = "{\"a record\": 1}\n";

fs::path pack_in(const fs::path& root) {
  return root / "k.fa2pack";
}
fs::path written_in(const fs::path& root) {
  return root / "written.fa2pack";
}

void fill(PackBuilder& pack) {
  for (const std::string& key : kPacked) pack.store(DerivingCompiler().compile(source_of(key)));
  pack.set_text("tuning.jsonl", kRecords);
}

void make(const fs::path& root) {
  make_private_directories(root);
  PackBuilder pack(pack_in(root));
  fill(pack);
  pack.write();
}

/// Returns whether the pack lists the kernel. A forged one may not.
bool lists(const KernelStore& store, const std::string& key) {
  const auto* pack = dynamic_cast<const Pack*>(&store);
  return pack == nullptr ||
         std::ranges::find(pack->rows(), pack_name_of("sm_80", key), &Pack::Row::name) != pack->rows().end();
}

/// Gets a kernel from the pack, else from the user's directory, else compiles it.
Verdict get(const fs::path& root, const std::string& key) {
  forget_warnings();
  const auto pack = open_store(pack_in(root));
  KernelCache cache(std::make_shared<DerivingCompiler>(), {pack},
                    std::make_shared<DiskCache>(root / "user", kReadWrite), JitMode::on);
  const CachedKernel kernel = cache.get(source_of(key));
  if (kernel.binary->code != code_of(key)) return wrong("wrong bytes for " + key);
  const std::string records = pack->text("tuning.jsonl");
  if (!records.empty() && records != kRecords) return wrong("wrong records");
  if (kernel.origin == KernelOrigin::read_only_cache) return {};
  if (bytes_in(pack_in(root)) > 0 && lists(*pack, key) && !has_warned())
    return wrong("not used, and no warning");
  return kernel.path.empty() ? Verdict{Outcome::refused, ""} : Verdict{};
}

/// Reads every kernel, as `fa2 pack verify` does.
Verdict verify(const fs::path& root) {
  try {
    for (const CacheEntry& entry : Pack::open(pack_in(root))->entries(true)) {
      if (entry.damage.empty() && entry.binary.code != code_of(entry.binary.key))
        return wrong("wrong bytes for " + entry.binary.key);
    }
    return {};
  } catch (const CacheError&) {
    return {Outcome::refused, ""};
  }
}

/// Writes a pack, which must be all there or not at all.
Verdict write(const fs::path& root) {
  PackBuilder pack(written_in(root));
  fill(pack);
  try {
    pack.write();
    return {};
  } catch (const CacheError&) {
    return {Outcome::refused, ""};
  }
}

bool is_written(const fs::path& root) {
  PackBuilder pack(written_in(root));
  fill(pack);
  return bytes_of(read_text(written_in(root))) == pack.encode();
}

Verdict judge(const fs::path& root, bool complete) {
  Verdict verdict;
  for (const std::string& key : kPacked) {
    verdict = worse(verdict, get(root, key));
    if (complete && !open_store(pack_in(root))->load("sm_80", key))
      return wrong("a packed kernel is not used");
  }
  if (bytes_in(written_in(root)) > 0 && !is_written(root)) return wrong("half a pack was published");
  return verdict;
}

/// Returns a pack with right checksums whose kernel has a hostile header, or a name that is not its own.
std::string forge(Random& random) {
  PackBuilder pack("forged.fa2pack");
  KernelBinary binary = DerivingCompiler().compile(source_of(kPacked[below(random, kPacked.size())]));
  if (below(random, 2) == 0) binary.spec = std::string(below(random, 100000), 'x');
  binary.resources.threads = static_cast<std::int32_t>(random());
  pack.store(binary);
  const std::vector<std::byte> bytes = pack.encode();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Subject pack_subject() {
  return {.name = "packs",
          .make = make,
          .operations = {{"load from a pack", [](const fs::path& root) { return get(root, kPacked[0]); }},
                         {"verify a pack", verify},
                         {"write a pack", write, is_written}},
          .files = [](const fs::path& root) { return std::vector<fs::path>{pack_in(root)}; },
          .forge = forge,
          .judge = judge,
          .reap =
              [](const fs::path& root) {
                DiskCache(root / "user", kReadWrite).prune(UINT64_MAX);
                write(root);
              }};
}

}  // namespace fa2::test
