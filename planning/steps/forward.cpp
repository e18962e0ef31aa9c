// Computes query tiles, resident blocks and split KV.
#include <generator/head_packing.h>
#include <generator/kernels/rules.h>
#include <planning/attention_params.h>
#include <planning/steps/forward.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>
#include <vector>

namespace fa2::forward_steps {
namespace {

/// Counters per split-KV launch. Each team of a block uses one, or two with batch_invariant.
constexpr std::uint32_t kSplitCounters = kMostForwardCounters / sizeof(std::uint32_t);

/// Returns the operands as operands_of() lists them, except for the workspace: Step::counters and Step::scratch describe it.
std::vector<OperandUse> every_operand(const AttentionProblem& problem) {
  std::vector<OperandUse> uses;
  const Operands operands = operands_of(problem, {});
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    const Role role = static_cast<Role>(i);
    if (role != Role::workspace) uses.push_back({role, operands[role].access});
  }
  return uses;
}

/// Returns the bytes of all partial outputs: two per block, or with batch_invariant those of two tiles
/// (templates/attention/forward/split_keys.cuh).
std::size_t bytes_of_partial_outputs(const AttentionProblem& problem, const WorkShares& shares) {
  const std::size_t floats_per_row = static_cast<std::size_t>(padded_dim(problem.head_dim_v)) + 4;
  const std::size_t per_block = problem.batch_invariant ? 2 * kMostParts : 2;
  return per_block * sizeof(float) * shares.block_count * static_cast<std::size_t>(shares.part_rows) *
         floats_per_row;
}

}  // namespace

Step of_tiles(const StepRequest& request) {
  const AttentionProblem& problem = request.problem.as<AttentionProblem>();
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = static_cast<std::uint32_t>(most_query_tiles(problem, request.config))};
  step.uses = every_operand(problem);
  return step;
}

std::uint32_t resident_blocks(const StepRequest& request) {
  return static_cast<std::uint32_t>(request.sm_count * request.config.ctas_per_sm);
}

WorkShares split_keys(const StepRequest& request, int teams, std::size_t offset, Step& step) {
  const AttentionProblem& problem = request.problem.as<AttentionProblem>();
  const KernelConfig& config = request.config;
  const std::uint32_t counters_per_block =
      static_cast<std::uint32_t>(problem.batch_invariant ? 2 * teams : teams);
  const HeadPacking packing = head_packing(problem, config);
  const int rows = problem.batch_invariant ? most_split_rows(packing.heads) : config.tile_m;
  WorkShares shares{};
  shares.block_count = std::min(
      {resident_blocks(request), kSplitCounters / counters_per_block, std::uint32_t{kMostSplitBlocks}});
  shares.part_rows = static_cast<int>(std::min<std::int64_t>(rows, packed_rows(packing, problem.seqlen_q)));
  step.shape = {.grid = shares.block_count, .begins_early = true};
  step.counters = {.bytes = kSplitCounters * sizeof *shares.counters,
                   .param = offset + offsetof(WorkShares, counters)};
  step.scratch = {.bytes = bytes_of_partial_outputs(problem, shares),
                  .param = offset + offsetof(WorkShares, parts)};
  return shares;
}

}  // namespace fa2::forward_steps
