// The cache of kernels as a subject.
#include <core/hash.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/kernel_cache.h>
#include <tests/support/cache_fixtures.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hostile_json.h"
#include "kernels.h"
#include "subject.h"
#include "system_calls.h"

namespace fa2::test {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 2> kKept = {key_of("kept 0"), key_of("kept 1")};
const std::string kMissing = key_of("missing");
const std::string kRefused = key_of("refused");

DiskCache disk(const fs::path& root, DiskCache::Access access = kReadWrite) {
  return DiskCache(root, access);
}

/// Gets a kernel as a new process would. The disk must hold it afterwards, or a warning must say why not.
Verdict get(const fs::path& root, const std::string& key) {
  forget_warnings();
  const auto cache = cache_in(root);
  const CachedKernel kernel = cache->get(source_of(key));
  if (kernel.binary->key != key || kernel.binary->code != code_of(key))
    return wrong("wrong bytes for " + key);
  if (cache->get(source_of(key)).binary != kernel.binary) return wrong("not served from memory");
  if (!kernel.path.empty()) return {};
  return has_warned() ? Verdict{Outcome::refused, ""} : wrong("not stored, and no warning");
}

/// Gets a kernel that is compiled. `prunes`: the store that follows also prunes the directory.
Verdict get_missing(const fs::path& root, bool prunes) {
  set_random(prunes ? 9 : 1);  // the name of the temporary file, then a choice: 1 of 10 stores prunes
  return get(root, kMissing);
}

bool is_stored(const fs::path& root) {
  return disk(root).load("sm_80", kMissing).has_value();
}

Verdict get_refusal(const fs::path& root) {
  forget_warnings();
  try {
    cache_in(root, kRefused)->get(source_of(kRefused));
  } catch (const KernelRefused& error) {
    return error.reason() == kReason ? Verdict{} : wrong("wrong reason: " + error.reason());
  }
  return wrong("a refused kernel was returned");
}

std::vector<fs::path> files(const fs::path& root) {
  std::vector<fs::path> paths;
  for (const std::string& key : kKept) paths.push_back(disk(root).path_of("sm_80", key));
  return paths;
}

/// Lists all kernels. Each good one must be listed as it is, or the list must say that something could not be read.
Verdict list(const fs::path& root, bool with_code) {
  bool is_damaged = false;
  std::ptrdiff_t kept = 0;
  for (const CacheEntry& entry : disk(root).entries(with_code)) {
    is_damaged = is_damaged || !entry.damage.empty();
    if (!entry.damage.empty()) continue;
    kept += std::ranges::count(kKept, entry.binary.key);
    if (!entry.binary.refused.empty()) continue;
    if (with_code && entry.binary.code != code_of(entry.binary.key)) return wrong("wrong bytes listed");
  }
  const auto there =
      std::ranges::count_if(files(root), [](const fs::path& path) { return bytes_in(path) > 0; });
  if (kept >= there) return {};
  return is_damaged ? Verdict{Outcome::refused, ""}
                    : wrong("a kernel is missing in the list, and nothing says why");
}

void make(const fs::path& root) {
  for (const std::string& key : kKept) cache_in(root)->get(source_of(key));
}

Verdict judge(const fs::path& root, bool complete) {
  for (const std::string& key : kKept) {
    if (complete && !disk(root, kReadOnly).load("sm_80", key)) return wrong("lost " + key);
  }
  Verdict verdict = get_refusal(root);
  for (const std::string& key : {kKept[0], kKept[1], kMissing}) {
    verdict = worse(verdict, get(root, key));
    const auto held = disk(root).load("sm_80", key);
    if (held && held->code != code_of(key)) return wrong("wrong bytes on disk for " + key);
    if (!held && verdict.outcome == Outcome::healed) return wrong("the disk does not hold " + key);
  }
  return verdict;
}

/// Returns an entry whose checksums are right and whose header is not what fa2 writes.
std::string forge(Random& random) {
  const std::string& key = kKept[below(random, kKept.size())];
  const std::vector<std::byte> good = code_of(key);
  const std::string code(reinterpret_cast<const char*>(good.data()), good.size());
  nlohmann::json header = {{"key", key},
                           {"spec", "a spec"},
                           {"arch", "sm_80"},
                           {"entry", "fa2_entry"},
                           {"compiler", "c"},
                           {"compile_ms", 1},
                           {"resources",
                            {{"registers", 1},
                             {"spill_store_bytes", 0},
                             {"spill_load_bytes", 0},
                             {"stack_bytes", 0},
                             {"static_shared_bytes", 0},
                             {"dynamic_shared_bytes", 0},
                             {"threads", 32}}},
                           {"refused", ""},
                           {"code_bytes", code.size()},
                           {"code_hash", content_hash(code)}};
  const std::string text = hostile_json(std::move(header), random);
  std::string front = "FA2K";
  for (const std::size_t number : {std::size_t{1}, text.size()}) {
    for (int shift = 0; shift < 32; shift += 8) front += static_cast<char>((number >> shift) & 0xff);
  }
  front += text;
  return front + content_hash(front) + code;
}

}  // namespace

Subject kernel_subject() {
  return {
      .name = "kernels",
      .make = make,
      .operations = {{"load hit", [](const fs::path& root) { return get(root, kKept[0]); }},
                     {"load miss", [](const fs::path& root) { return get_missing(root, false); }, is_stored},
                     {"load miss, prune", [](const fs::path& root) { return get_missing(root, true); },
                      is_stored},
                     {"refuse", get_refusal},
                     {"lock",
                      [](const fs::path& root) {
                        const auto lock = disk(root).lock("sm_80", kMissing);
                        return Verdict{};
                      }},
                     {"prune",
                      [](const fs::path& root) {
                        disk(root).prune(UINT64_MAX);
                        return Verdict{};
                      }},
                     {"list", [](const fs::path& root) { return list(root, false); }},
                     {"verify", [](const fs::path& root) { return list(root, true); }}},
      .files = files,
      .forge = forge,
      .judge = judge,
      .lock =
          [](const fs::path& root) {
            return disk(root).path_of("sm_80", kMissing).replace_extension(".lock");
          },
      .reap = [](const fs::path& root) { disk(root).prune(UINT64_MAX); }};
}

}  // namespace fa2::test
