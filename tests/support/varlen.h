// Calls of sequences with lengths of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_attention.h"
#include "gpu_backward.h"

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

/// Around tiles of 64, one long among short ones, more than a warp has lanes, empty ones, as many queries as keys and not.
const std::vector<Lengths>& length_mixes();

/// Numbers of the variants, other ones for other `i`. To be uploaded.
void vary_numbers(GuardedCall& call, std::size_t i);

/// NaN in every row that no query looks at: those of no sequence, and keys and values that no query of their own
/// sequence sees. To be uploaded.
void poison_unseen(GuardedCall& call);
/// Of a backward's dO and dLSE too: those of no sequence.
void poison_unseen(GuardedBackward& call);

/// A backward with dLSE, NaN in what no query looks at, uploaded.
GuardedBackward backward_of(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                            MakeLayout layout = guarded_bshd);

/// Sequence `b` of it as a batch of its own.
GuardedBackward alone(const GuardedBackward& all, std::size_t b);

/// NaN in these rows of every head.
void poison(reference::Tensor& tensor, const reference::SequenceRows& rows);

}  // namespace fa2::test
