// What `fa2 pack` shows: tables for people, documents for programs.
#pragma once

#include <api/coverage.h>
#include <runtime/pack.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fa2::tools {

/// Returns why this library does not run the kernel: damaged, not trusted, or made by another version. Empty if it may run.
std::string rejection_of(const CacheEntry& entry);

Table kernel_table(const std::vector<CacheEntry>& entries);
/// Returns "kernels.fa2pack: 30 kernels, 812.4 KB".
std::string summary_of(const std::filesystem::path& pack, const std::vector<CacheEntry>& entries);

/// The kernels of one arch and kind.
struct KindStatistics {
  std::string arch, kind;
  std::size_t kernels = 0;
  std::uint64_t stored_bytes = 0, code_bytes = 0;
  int most_registers = 0;
  std::size_t spilling = 0;  ///< kernels that spill registers
  std::size_t refused = 0;   ///< refusals, which have no code
};

/// `entries` must have their code. Ordered by arch and kind.
std::vector<KindStatistics> statistics_of(const std::vector<CacheEntry>& entries);
Table statistics_table(const std::vector<KindStatistics>& kinds);
Json document_of(const std::vector<KindStatistics>& kinds);

/// A kernel or text that two packs do not share.
struct Difference {
  std::string name;
  std::string where;  ///< "only in the first", "only in the second", "contents differ"
};
std::vector<Difference> differences_of(const Pack& first, const Pack& second);
Table difference_table(const std::vector<Difference>& differences);
Json document_of(const std::vector<Difference>& differences);

Table missing_table(const std::vector<MissingKernel>& missing);
Json document_of(const Coverage& coverage);

}  // namespace fa2::tools
