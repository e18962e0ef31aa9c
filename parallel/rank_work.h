// The problem of a rank's kernels: attention of its queries over the keys that they need.
#pragma once

#include <fa2/backward.h>
#include <fa2/problem.h>
#include <parallel/gather_plan.h>
#include <parallel/interval_plan.h>
#include <parallel/local_sequences.h>
#include <parallel/request_check.h>
#include <parallel/stream_mask.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2 {

/// Returns the problem whose visible keys ranks exchange. With dropout results depend on the number of a key in its sequence, so
/// kernels need each sequence's keys from its first one on. With texts of scores they depend on its length too, so kernels need all.
AttentionProblem exchanged_problem(const AttentionProblem& problem);

/// Returns whether results depend on where a query stands among the keys.
bool has_diagonal(const AttentionProblem& problem);

/// Returns why all heads must be in one group; empty if they need not.
std::string why_one_group(const AttentionProblem& problem, const Gradients& gradients);

/// The attention of one rank, for all entries and heads.
struct RankWork {
  AttentionProblem problem;
  /// With problem.varlen those of the batch, else the one of each entry. None without queries.
  std::vector<LocalSequence> sequences;

  bool is_empty() const { return sequences.empty(); }
  bool is_packed() const { return problem.varlen; }
  QueryPieces pieces() const;  ///< of a problem that is not packed
  AttentionProblem problem_of(const HeadGroup& group) const;
};

/// Returns the work of a rank, and adds to `found` why kernels cannot do it. `mask`: of exchanged_problem(). `cu_seqlens`: empty
/// without documents.
RankWork rank_work(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens,
                   const IntervalPlan& plan, const StreamMask& mask, int rank, RequestCheck& found);

/// Returns the work of kernels that compute these sequences, of `queries` rows of the rank and `keys` rows of a slot.
RankWork work_of(const AttentionProblem& problem, std::vector<LocalSequence> sequences, std::int64_t queries,
                 std::int64_t keys);

/// Returns the problem of the rank's own tensors: `tokens` queries and keys, without tables.
AttentionProblem shard_problem(const AttentionProblem& problem, std::int64_t tokens);

}  // namespace fa2
