// The launches of a backward: their grids and their parameters.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/kernel_kind.h>
#include <planning/step.h>
#include <runtime/kernel.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fa2 {

/// What the steps of a plan share: delta, and if dQ is summed over tiles of keys, exponents' offsets, turns and these
/// sums (BackwardParams::delta).
struct BackwardScratch {
  std::int64_t statistic_rows;  ///< of a head
  std::int64_t sum_tile = 0;    ///< queries of a tile of the sums; 0: there are none
  std::int64_t sum_cols = 0;    ///< floats a row of them

  /// Words of delta, of the offsets and of the turns each: a whole part of a workspace.
  std::int64_t statistics(const AttentionProblem& problem) const;
  /// A multiple of kWorkspaceAlignment.
  std::size_t bytes(const AttentionProblem& problem) const;
};

/// Of delta alone.
BackwardScratch scratch_for(const AttentionProblem& problem);
/// With sums, in tiles as the kernel of `summing` makes them. Packed sequences each begin with a tile of their own.
BackwardScratch scratch_for(const AttentionProblem& problem, const KernelConfig& summing);

/// Whether a pass of the backward has something to write.
bool has_tiles(const AttentionProblem& problem, KernelPass pass);

/// `problem` is valid for a backward and normalized, `config` of a pass that has tiles, and why_rejected() does not refuse
/// it. Parameters: BackwardParams, or BackwardParamsSm90.
Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel, const BackwardScratch& scratch);

}  // namespace fa2
