// The memory that the steps of a backward share.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

/// Layout of a backward's scratch (BackwardParams::delta). It always holds delta. If key tiles accumulate dQ, it also holds LSE
/// in base 2, the semaphores of query tiles, and the dQ accumulator.
struct BackwardScratch {
  std::int64_t statistic_rows = 0;  ///< rows of delta per head
  std::int64_t sum_tile = 0;        ///< query rows of one tile of the dQ accumulator; 0: there is none
  std::int64_t sum_cols = 0;        ///< floats per row of the dQ accumulator

  /// Returns the words of delta, which are those of LSE and of the semaphores too: a multiple of kWorkspaceAlignment bytes.
  std::int64_t statistics(const AttentionProblem& problem) const;
  /// Returns the bytes of all: a multiple of kWorkspaceAlignment.
  std::size_t bytes(const AttentionProblem& problem) const;
};

/// Returns a scratch with delta alone.
BackwardScratch scratch_for(const AttentionProblem& problem);
/// Returns a scratch with a dQ accumulator, in the tiles of `fused`, the config of a kernel that accumulates dQ. Each packed
/// sequence begins with a tile of its own.
BackwardScratch scratch_for(const AttentionProblem& problem, const KernelConfig& fused);

}  // namespace fa2
