// The sequences of a problem, found in host copies of its tables as the device finds them.
#pragma once

#include <reference/attention_reference.h>

#include <cstdint>
#include <vector>

namespace fa2::reference {

/// The rows [begin, begin + count) of one entry of a tensor's batch.
struct SequenceRows {
  std::int64_t entry = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

struct Sequence {
  SequenceRows q;  ///< of Q and O
  SequenceRows k;  ///< of K and V
};

/// Those of every batch index, whatever the tables hold: begin = clamp(cu[b], 0, total), end = clamp(cu[b + 1], begin,
/// total), count = clamp(seqused[b], 0, min(end - begin, longest)). `tables`: host pointers, nothing else is read.
/// Without varlen, whole entries.
std::vector<Sequence> sequences_of(const AttentionProblem& problem, const AttentionArgs& tables);

/// Sequence `b` by itself: a batch of one, of these rows of Q, K and V, by its own numbers.
AttentionProblem problem_of(const AttentionProblem& problem, const Sequence& sequence);
ScoreRule rule_of(const AttentionProblem& problem, const ScoreRule& rule, std::int64_t b);
Tensor rows_of(const Tensor& tensor, const SequenceRows& rows);
/// Its rows of K or V, whichever pages they are in.
Tensor keys_of(const AttentionProblem& problem, const Tensor& tensor, const Sequence& sequence,
               std::int64_t b, const AttentionArgs& tables);
/// Numbers of rows, one a row: `like` has their entries, heads and rows.
std::vector<double> rows_of(const std::vector<double>& numbers, const Tensor& like, const SequenceRows& rows);

/// The inverse of rows_of().
void put_rows(const Tensor& part, const SequenceRows& rows, Tensor& tensor);
void put_rows(const std::vector<double>& part, const SequenceRows& rows, const Tensor& like,
              std::vector<double>& numbers);

}  // namespace fa2::reference
