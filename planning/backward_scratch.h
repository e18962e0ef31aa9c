// The memory that the steps of a backward share.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <planning/key_parts.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

/// Layout of a backward's scratch (BackwardParams::delta). It always holds delta. If key tiles accumulate dQ, it also holds LSE
/// in base 2, the semaphores of query tiles, the dQ accumulator, and sums of dK and dV if blocks share key tiles.
struct BackwardScratch {
  std::int64_t statistic_rows = 0;  ///< rows of delta per head
  std::int64_t sum_tile = 0;        ///< query rows of one tile of the dQ accumulator; 0: there is none
  std::int64_t sum_cols = 0;        ///< floats per row of the dQ accumulator
  KeyParts parts = {};
  std::int64_t key_tiles = 0;    ///< of a launch
  std::int64_t part_rows = 0;    ///< keys of a tile
  std::int64_t part_floats = 0;  ///< of one part

  /// Returns the words of delta, which are those of LSE and of the semaphores too: a multiple of kWorkspaceAlignment bytes.
  std::int64_t statistics(const AttentionProblem& problem) const;
  /// Returns the blocks that compute parts, if key tiles have several.
  std::int64_t part_blocks() const;
  /// Returns the blocks of dq_convert that merge parts.
  std::int64_t merge_blocks() const;
  /// Returns how many floats precede the parts of key tiles.
  std::int64_t part_start(const AttentionProblem& problem) const;
  /// Returns the bytes of all: a multiple of kWorkspaceAlignment.
  std::size_t bytes(const AttentionProblem& problem) const;
};

/// Returns a scratch with delta alone.
BackwardScratch scratch_for(const AttentionProblem& problem);
/// Returns a scratch with a dQ accumulator, in the tiles of `fused`, the config of a kernel that accumulates dQ. Each packed
/// sequence begins with a tile of its own. `sm_count`: SMs that the launch may use; 0 if no blocks share a key tile.
BackwardScratch scratch_for(const AttentionProblem& problem, const KernelConfig& fused, int sm_count);

}  // namespace fa2
