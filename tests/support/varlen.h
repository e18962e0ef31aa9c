// Calls of sequences with lengths of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_attention.h"

namespace fa2::test {

/// Queries and keys of each sequence.
struct Lengths {
  std::vector<std::int32_t> q, k;

  explicit Lengths(std::vector<std::int32_t> both) : q(both), k(std::move(both)) {}
  Lengths(std::vector<std::int32_t> queries, std::vector<std::int32_t> keys)
      : q(std::move(queries)), k(std::move(keys)) {}
};

/// Which sides lie one sequence after the other, and where there are rows of no sequence.
enum class Packing : std::uint8_t {
  packed,   ///< both; before the first sequence and after the last
  roomy,    ///< both, some longer than what of them counts: seqused
  queries,  ///< Q and O; K and V are batched, with seqused_k
  batched,  ///< none: seqused of both
};
constexpr Packing kPackings[] = {Packing::packed, Packing::roomy, Packing::queries, Packing::batched};

/// `problem` with the batch and sizes for these lengths, and varlen.
AttentionProblem with_lengths(AttentionProblem problem, const Lengths& lengths, Packing packing);

/// Tables of these lengths, to be uploaded, for a call that has room for them.
void set_lengths(GuardedCall& call, const Lengths& lengths, Packing packing);

/// NaN in every row that no query looks at: those of no sequence, and keys and values that no query of their own
/// sequence sees. To be uploaded.
void poison_unseen(GuardedCall& call);

/// NaN in these rows of every head.
void poison(reference::Tensor& tensor, const reference::SequenceRows& rows);

}  // namespace fa2::test
