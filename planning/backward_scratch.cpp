// Sizes of delta and of the dQ accumulator.
#include <generator/kernels/backward_sm90.h>
#include <generator/kernels/rules.h>
#include <generator/sequences.h>
#include <operation/operands/workspace.h>
#include <planning/attention_params.h>
#include <planning/backward_scratch.h>

#include <templates/attention/common/params.cuh>

namespace fa2 {

std::int64_t BackwardScratch::statistics(const AttentionProblem& p) const {
  constexpr std::int64_t kWhole = kWorkspaceAlignment / 4;
  return (q_entries(p).count * p.heads_q * statistic_rows + kWhole - 1) / kWhole * kWhole;
}

std::int64_t BackwardScratch::part_start(const AttentionProblem& p) const {
  const std::int64_t count = statistics(p), sums = q_entries(p).count * p.heads_q * statistic_rows * sum_cols;
  return count + (sum_cols > 0 ? 2 * count + sums : 0);
}

std::int64_t BackwardScratch::part_blocks() const {
  const std::int64_t sections = (key_tiles + parts.section_tiles - 1) / parts.section_tiles;
  return sections * parts.section_tiles * parts.count;
}

std::int64_t BackwardScratch::merge_blocks() const {
  return parts.count > 1 ? key_tiles * (part_rows / kMergedRows) : 0;
}

std::size_t BackwardScratch::bytes(const AttentionProblem& p) const {
  const std::int64_t floats = parts.count > 1 ? part_blocks() * part_floats : 0;
  return whole_part(static_cast<std::size_t>(4 * (part_start(p) + floats)));
}

BackwardScratch scratch_for(const AttentionProblem& p) {
  return {.statistic_rows = q_entries(p).rows};
}

BackwardScratch scratch_for(const AttentionProblem& p, const KernelConfig& fused, int sm_count) {
  const std::int64_t tile = fused.tile_n;
  const std::int64_t tiles = p.total_q > 0 ? p.total_q / tile + p.batch : (p.seqlen_q + tile - 1) / tile;
  return {.statistic_rows = tiles * tile,
          .sum_tile = tile,
          .sum_cols = backward_sm90::sum_cols(traits_of({p, {}})),
          .parts = key_parts(p, fused, sm_count),
          .key_tiles = most_key_tiles(p, fused),
          .part_rows = fused.tile_m,
          .part_floats = kPartWords + fused.tile_m * (padded_dim(static_cast<std::int32_t>(p.head_dim)) +
                                                      padded_dim(static_cast<std::int32_t>(p.head_dim_v)))};
}

}  // namespace fa2
