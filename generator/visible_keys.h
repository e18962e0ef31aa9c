// Which keys the queries of a problem see: counted, not listed.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <optional>

namespace fa2 {

/// Of the keys, those from the first to the last that some query sees; the others may hold anything. With varlen, every
/// row of an entry: what of it some query sees only the device knows.
struct VisibleKeys {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
VisibleKeys visible_keys(const AttentionProblem& problem);

/// Pairs of a query and a key that it sees, of one batch and query head. Exact up to 2^53. With varlen, those of mean
/// lengths.
double visible_pairs(const AttentionProblem& problem);

/// The most keys that any query sees where a window bounds them on both sides (a causal mask is such a bound);
/// none where they grow with the sequence.
std::optional<std::int64_t> window_width(const AttentionProblem& problem);

}  // namespace fa2
