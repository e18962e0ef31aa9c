// A read-only directory of kernels (FA2_CACHE_PATH) in front of the user's, as a subject: fa2 never changes a file in it.
#include <runtime/kernel_cache.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels.h"
#include "subject.h"

namespace fa2::test {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 2> kShipped = {key_of("shipped 0"), key_of("shipped 1")};

DiskCache pack(const fs::path& root, DiskCache::Access access = kReadOnly) {
  return DiskCache(root / "pack", access);
}

void make(const fs::path& root) {
  for (const std::string& key : kShipped)
    pack(root, kReadWrite).store(DerivingCompiler().compile(source_of(key)));
}

std::vector<fs::path> files(const fs::path& root) {
  std::vector<fs::path> paths;
  for (const std::string& key : kShipped) paths.push_back(pack(root).path_of("sm_80", key));
  return paths;
}

/// Gets a kernel from the read-only directory, else from the user's, else compiles it.
Verdict get(const fs::path& root, const std::string& key) {
  forget_warnings();
  KernelCache cache(std::make_shared<DerivingCompiler>(),
                    {std::make_shared<DiskCache>(root / "pack", kReadOnly)},
                    std::make_shared<DiskCache>(root / "user", kReadWrite), JitMode::on);
  const CachedKernel kernel = cache.get(source_of(key));
  if (kernel.binary->code != code_of(key)) return wrong("wrong bytes for " + key);
  if (kernel.origin == KernelOrigin::read_only_cache) return {};
  const bool is_there = bytes_in(pack(root).path_of("sm_80", key)) > 0;
  if (is_there && !has_warned()) return wrong("not used, and no warning");
  return kernel.path.empty() ? Verdict{Outcome::refused, ""} : Verdict{};
}

/// Returns a file's contents; "" if it is none, or longer than any kernel here.
std::string contents_of(const fs::path& path) {
  const std::size_t bytes = bytes_in(path);
  return bytes > 0 && bytes < (1 << 20) ? read_text(path) : "";
}

Verdict judge(const fs::path& root, bool complete) {
  Verdict verdict;
  for (const std::string& key : kShipped) {
    const fs::path path = pack(root).path_of("sm_80", key);
    const std::string before = contents_of(path);
    verdict = worse(verdict, get(root, key));
    if (complete && !pack(root).load("sm_80", key)) return wrong("a shipped kernel is not used");
    if (contents_of(path) != before) return wrong("changed a read-only file");
  }
  return verdict;
}

}  // namespace

Subject read_only_subject() {
  return {.name = "read-only kernels",
          .make = make,
          .operations = {{"load from read-only", [](const fs::path& root) { return get(root, kShipped[0]); }},
                         {"prune a read-only",
                          [](const fs::path& root) {
                            return pack(root).prune(0).files == 0 ? Verdict{}
                                                                  : wrong("pruned a read-only directory");
                          }}},
          .files = files,
          .forge = kernel_subject().forge,
          .judge = judge,
          .reap = [](const fs::path& root) { DiskCache(root / "user", kReadWrite).prune(UINT64_MAX); }};
}

}  // namespace fa2::test
