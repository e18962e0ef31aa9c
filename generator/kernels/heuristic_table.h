// A table of configs by query rows, for the heuristics of forward kernels.
#pragma once

#include <fa2/config.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace fa2 {

inline constexpr std::int64_t kMostQueries =
    std::numeric_limits<std::int32_t>::max() - 1023;  ///< of any problem

/// One line of a table: the configs for problems with at most `most_queries` queries (see table_length()),
/// best first, valid or not.
struct HeuristicRange {
  std::int64_t most_queries;
  std::vector<KernelConfig> best_first;
};
using HeuristicTable = std::vector<HeuristicRange>;

/// Returns the line for `queries`.
inline std::vector<KernelConfig> line_for(const HeuristicTable& table, std::int64_t queries) {
  const auto line =
      std::ranges::find_if(table, [&](const HeuristicRange& r) { return queries <= r.most_queries; });
  return line == table.end() ? std::vector<KernelConfig>() : line->best_first;
}

/// Returns the most queries of every line.
inline std::vector<std::int64_t> limits_of(const HeuristicTable& table) {
  std::vector<std::int64_t> limits;
  for (const HeuristicRange& range : table) limits.push_back(range.most_queries);
  return limits;
}

}  // namespace fa2
