// Calls of sequences that have their own lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_attention.h"
#include "gpu_backward.h"

namespace fa2::test {

/// The numbers of queries and keys of each sequence.
struct Lengths {
  std::vector<std::int32_t> q, k;

  explicit Lengths(std::vector<std::int32_t> both) : q(both), k(std::move(both)) {}
  Lengths(std::vector<std::int32_t> queries, std::vector<std::int32_t> keys)
      : q(std::move(queries)), k(std::move(keys)) {}
};

/// Which sides are packed, and where there are rows of no sequence.
enum class Packing : std::uint8_t {
  packed,   ///< both sides; unused rows before the first sequence and after the last
  roomy,    ///< both sides; some sequences have more rows than seqused counts
  queries,  ///< only Q and O; K and V are batched, with seqused_k
  batched,  ///< no side; seqused of both
};
constexpr Packing kPackings[] = {Packing::packed, Packing::roomy, Packing::queries, Packing::batched};

/// Returns `problem` with varlen, and with the batch and sizes for these lengths.
AttentionProblem with_lengths(AttentionProblem problem, const Lengths& lengths, Packing packing);

/// Sets tables for these lengths in a call with room for them. The caller must upload the call.
void set_lengths(GuardedCall& call, const Lengths& lengths, Packing packing);

/// Returns lengths from 1 to 9, in another order for another `first`.
std::vector<std::int32_t> many_lengths(std::int32_t first, std::int32_t sequences);

/// Returns mixes of lengths: around tiles of 64, one long among short ones, more than a warp has lanes, empty
/// ones, equal and unequal numbers of queries and keys.
const std::vector<Lengths>& length_mixes();

/// Sets the numbers of the variants, different ones for different `i`. The caller must upload the call.
void vary_numbers(GuardedCall& call, std::size_t i);

/// Sets every row that no query reads to NaN: rows of no sequence, and keys and values that no query of their
/// sequence sees. The caller must upload the call.
void poison_unseen(GuardedCall& call);
/// Also sets the rows of no sequence in dO and dLSE to NaN.
void poison_unseen(GuardedBackward& call);

/// Returns an uploaded backward with dLSE. Rows that no query reads are NaN.
GuardedBackward backward_of(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                            MakeLayout layout = guarded_bshd);

/// Returns sequence `b` of `all` as a batch of its own.
GuardedBackward alone(const GuardedBackward& all, std::size_t b);

/// Sets these rows of every head to NaN.
void poison(reference::Tensor& tensor, const reference::SequenceRows& rows);

}  // namespace fa2::test
