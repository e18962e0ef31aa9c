// The sequences of a problem, from host copies of its tables, with the device's rules.
#pragma once

#include <reference/attention_reference.h>

#include <cstdint>
#include <vector>

namespace fa2::reference {

/// The rows [begin, begin + count) in one batch entry of a tensor.
struct SequenceRows {
  std::int64_t entry = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

struct Sequence {
  SequenceRows q;  ///< rows of Q and O
  SequenceRows k;  ///< rows of K and V
};

/// Returns the sequence of every batch index, whatever the tables hold: begin = clamp(cu[b], 0, total), end =
/// clamp(cu[b + 1], begin, total), count = clamp(seqused[b], 0, min(end - begin, longest)). Without varlen,
/// sequences are whole entries. `tables`: host pointers; nothing else is read.
std::vector<Sequence> sequences_of(const AttentionProblem& problem, const AttentionArgs& tables);

/// Return sequence `b` as a batch of one: its problem, its rule, and its rows of Q, K or V.
AttentionProblem problem_of(const AttentionProblem& problem, const Sequence& sequence);
ScoreRule rule_of(const AttentionProblem& problem, const Sequence& sequence, const ScoreRule& rule,
                  std::int64_t b);
Tensor rows_of(const Tensor& tensor, const SequenceRows& rows);
/// Returns the sequence's rows of K or V, from whichever pages hold them; of missing pages zeros.
Tensor keys_of(const AttentionProblem& problem, const Tensor& tensor, const Sequence& sequence,
               std::int64_t b, const AttentionArgs& tables);
/// Returns one number per row of a sequence. `like` has the entries, heads and rows of all numbers.
std::vector<double> rows_of(const std::vector<double>& numbers, const Tensor& like, const SequenceRows& rows);

/// Store a part at the rows of a sequence: the inverse of rows_of().
void put_rows(const Tensor& part, const SequenceRows& rows, Tensor& tensor);
void put_rows(const std::vector<double>& part, const SequenceRows& rows, const Tensor& like,
              std::vector<double>& numbers);

}  // namespace fa2::reference
