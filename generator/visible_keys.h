// Which keys the queries of a problem see: counted, not listed.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <optional>

namespace fa2 {

/// Rows of each entry of K and V (k_entries()), in memory.
struct VisibleRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Returns the rows from the first to the last that some query sees; other rows may hold anything. With varlen: all rows of
/// an entry, be it a page, because only the device knows the lengths.
VisibleRows visible_rows(const AttentionProblem& problem);

/// Returns how many keys of a sequence lie from the first to the last that some query sees, however memory holds them. With
/// varlen: for mean lengths.
std::int64_t visible_keys(const AttentionProblem& problem);

/// Pairs of a query and a key that it sees, of one batch and query head. Exact up to 2^53. With varlen, those of mean
/// lengths.
double visible_pairs(const AttentionProblem& problem);

/// The most keys that any query sees where a window bounds them on both sides (a causal mask is such a bound);
/// none where they grow with the sequence.
std::optional<std::int64_t> window_width(const AttentionProblem& problem);

}  // namespace fa2
