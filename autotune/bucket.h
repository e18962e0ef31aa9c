// Problems that share one tuning record.
#pragma once

#include <fa2/problem.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// A size of a problem, rounded.
struct SizeLog2 {
  std::string_view name;  ///< the field of AttentionProblem; static
  int log2 = 0;           ///< round(log2(max(1, size))); 0 for an optional one that is not given

  friend bool operator==(const SizeLog2&, const SizeLog2&) = default;
};

/// Problems with the same pass and traits. The tiles agree to half an octave, because an SM has few of them; the query group size,
/// batch * heads_q and every other size agree when rounded to powers of two.
struct Bucket {
  std::string traits;  ///< to_string(AttentionTraits), without those that cost the pass no time
  KernelPass pass = KernelPass::forward;
  int group_log2 = 0;  ///< round(log2(heads_q / heads_kv))
  int heads_log2 = 0;  ///< round(log2(batch * heads_q))
  int tiles_half_octaves =
      0;  ///< round(2 log2(tiles of 64 rows in a forward)); 0 with varlen: only the device knows the rows
  std::vector<SizeLog2> sizes;  ///< all but batch and heads, in the problem's order

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

Bucket bucket_of(const PlannedProblem& problem, KernelPass pass = KernelPass::forward);

/// Returns a problem of the bucket, except that its tiles may differ. It has one key/value head, and batch 1 if the group has all
/// heads. `traits` must have the bucket's traits.
PlannedProblem problem_of(const Bucket& bucket, const PlannedProblem& traits);

std::string to_string(const Bucket& bucket);

/// Returns 0 for equal buckets, and nullopt if the passes or the traits differ: a record of one is ignored for the other. Otherwise
/// the sum of the exponents' distances, or 1 if only the tiles differ.
std::optional<int> distance(const Bucket& a, const Bucket& b);

}  // namespace fa2
