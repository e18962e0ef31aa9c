// The arithmetic of a forward's launch.
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/rules.h>
#include <planning/attention_params.h>
#include <planning/forward_step.h>
#include <planning/tensor_maps.h>

#include <algorithm>
#include <cstddef>
#include <templates/attention/common/params.cuh>
#include <templates/attention/common/tile_schedule.cuh>
#include <utility>

namespace fa2 {
namespace {

bool is_persistent(const KernelConfig& config) {
  return config.schedule != kOneTileEach || splits_keys(config);
}

/// Of a launch that splits keys: those who store a part of each of its blocks count the parts of one tile, or of two.
constexpr std::uint32_t kPartCounters = 1024;

/// Warpgroups, or the block as a whole.
std::int64_t teams_of_block(const KernelConfig& config) {
  return config.mainloop == kForwardSm90.mainloop ? config.warps / 4 : 1;
}

LaunchShape shape_of(const AttentionProblem& problem, const KernelConfig& config, int sm_count) {
  const std::int64_t resident = std::int64_t{sm_count} * config.ctas_per_sm;
  std::int64_t blocks = most_query_tiles(problem, config);
  if (is_persistent(config)) blocks = std::min(blocks, resident);
  const std::int64_t counters_of_block = teams_of_block(config) * (problem.batch_invariant ? 2 : 1);
  if (splits_keys(config)) blocks = std::min(resident, kPartCounters / counters_of_block);
  return {.grid = static_cast<std::uint32_t>(blocks)};
}

/// Where blocks leave the parts of tiles, two each, or those of two tiles (templates/attention/forward/split_keys.cuh).
WorkspacePart scratch_for_parts(const AttentionProblem& problem, const WorkShares& shares) {
  const std::size_t floats_of_row = static_cast<std::size_t>(padded_dim(problem.head_dim_v)) + 4;
  const std::size_t parts = problem.batch_invariant ? 2 * kMostParts : 2;
  return {.bytes = parts * sizeof(float) * shares.block_count * static_cast<std::size_t>(shares.part_rows) *
                   floats_of_row,
          .is_scratch = true,
          .param = offsetof(WorkShares, parts)};
}

void fill_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParams>()), call.problem, call.args);
}

/// These two fill in all but what the workspace has.
void fill_split(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParamsSm81>()).attention, call.problem, call.args);
}

void fill_sm90(const Step& step, const Call& call, ParamsBuffer& buffer) {
  AttentionParamsSm90& params = buffer.emplace(step.constants.as<AttentionParamsSm90>());
  add_call(params.attention, call.problem, call.args);
  fill_tensor_maps(call.problem, step.config, call.operands, params);
}

/// As operands_of() lists them. A step's part of the workspace is its own affair.
std::vector<OperandUse> every_operand(const AttentionProblem& problem) {
  std::vector<OperandUse> uses;
  const Operands operands = operands_of(problem, {});
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    const Role role = static_cast<Role>(i);
    if (role != Role::workspace) uses.push_back({role, operands[role].access});
  }
  return uses;
}

/// With what the step works in.
template <class Params>
void add_constants(const AttentionProblem& problem, const AttentionParams& constants, Step& step,
                   std::shared_ptr<LaunchCounters> counters) {
  Params params{};
  params.attention = constants;
  params.shares.block_count = step.shape.grid;
  if (splits_keys(step.config)) {
    step.shape.begins_early = true;
    const int rows = problem.batch_invariant ? most_split_rows(step.config.packed_heads) : step.config.tile_m;
    params.shares.part_rows = std::min(rows, params.attention.q_rows);
    step.scratch = scratch_for_parts(problem, params.shares);
    step.scratch.param += offsetof(Params, shares);
  }
  step.constants.emplace(params);
  if (const std::uint32_t words = counter_words(step.config); words > 0) {
    step.workspace.bytes = words * sizeof *params.shares.counters;
    step.workspace.param = offsetof(Params, shares) + offsetof(WorkShares, counters);
    step.counters = std::move(counters);
  }
}

}  // namespace

std::uint32_t counter_words(const KernelConfig& config) {
  if (splits_keys(config)) return kPartCounters;
  return config.schedule == kDynamicPersistent ? 1 : 0;
}

CounterSizes counter_sizes(std::uint32_t words) {
  if (words == 1) return {};
  return {.in_turn = 1 << 10, .for_graphs = 1 << 12, .words = words};
}

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count,
                  std::shared_ptr<LaunchCounters> counters) {
  const AttentionParams constants = constants_of(problem, config);
  Step step;
  step.kernel = std::move(kernel);
  step.config = config;
  step.shape = shape_of(problem, config, sm_count);
  step.uses = every_operand(problem);
  switch (kind_of(config).params) {
    case KernelParams::attention_sm90:
      step.fill = fill_sm90;
      add_constants<AttentionParamsSm90>(problem, constants, step, std::move(counters));
      break;
    case KernelParams::attention_sm81:
      step.fill = fill_split;
      add_constants<AttentionParamsSm81>(problem, constants, step, std::move(counters));
      break;
    default:
      step.fill = fill_sm80;
      step.constants.emplace(constants);
  }
  return step;
}

}  // namespace fa2
