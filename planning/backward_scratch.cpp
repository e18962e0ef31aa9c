// Sizes of delta and of the dQ accumulator.
#include <generator/kernels/backward_sm90.h>
#include <generator/sequences.h>
#include <operation/operands/workspace.h>
#include <planning/backward_scratch.h>

namespace fa2 {

std::int64_t BackwardScratch::statistics(const AttentionProblem& p) const {
  constexpr std::int64_t kWhole = kWorkspaceAlignment / 4;
  return (q_entries(p).count * p.heads_q * statistic_rows + kWhole - 1) / kWhole * kWhole;
}

std::size_t BackwardScratch::bytes(const AttentionProblem& p) const {
  const std::int64_t count = statistics(p), sums = q_entries(p).count * p.heads_q * statistic_rows * sum_cols;
  return whole_part(static_cast<std::size_t>(4 * (count + (sum_cols > 0 ? 2 * count + sums : 0))));
}

BackwardScratch scratch_for(const AttentionProblem& p) {
  return {.statistic_rows = q_entries(p).rows};
}

BackwardScratch scratch_for(const AttentionProblem& p, const KernelConfig& fused) {
  const std::int64_t tile = fused.tile_n;
  const std::int64_t tiles = p.total_q > 0 ? p.total_q / tile + p.batch : (p.seqlen_q + tile - 1) / tile;
  return {.statistic_rows = tiles * tile,
          .sum_tile = tile,
          .sum_cols = backward_sm90::sum_cols(traits_of({p, {}}))};
}

}  // namespace fa2
