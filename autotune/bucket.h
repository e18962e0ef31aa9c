// Problems that share one tuning record.
#pragma once

#include <fa2/problem.h>

#include <optional>
#include <string>

namespace fa2 {

/// The traits exactly; the query group size, lengths and batch * heads_q rounded to powers of two.
struct Bucket {
  std::string traits;     ///< to_string(AttentionTraits)
  int group_log2 = 0;     ///< round(log2(heads_q / heads_kv))
  int seqlen_q_log2 = 0;  ///< round(log2(max(1, seqlen_q)))
  int seqlen_k_log2 = 0;
  int heads_log2 = 0;  ///< round(log2(batch * heads_q))

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

Bucket bucket_of(const AttentionProblem& problem);

/// A problem of the bucket: with one key/value head, and batch 1 where the group has all the heads. `traits` has
/// the bucket's dtype, head dims, mask and alignment.
AttentionProblem problem_of(const Bucket& bucket, const AttentionProblem& traits);

std::string to_string(const Bucket& bucket);

/// 0 for equal buckets; nullopt if the traits differ (a record of one says nothing of the other).
/// Otherwise the sum of the exponents' distances.
std::optional<int> distance(const Bucket& a, const Bucket& b);

}  // namespace fa2
