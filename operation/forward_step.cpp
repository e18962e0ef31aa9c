// The arithmetic of a forward's launch.
#include <generator/kernel_kind.h>
#include <generator/rules/rules.h>
#include <operation/attention_params.h>
#include <operation/forward_step.h>
#include <operation/tensor_maps.h>

#include <algorithm>
#include <cstddef>
#include <templates/attention/params.cuh>
#include <templates/attention/tile_schedule.cuh>
#include <utility>

namespace fa2 {
namespace {

bool is_persistent(const KernelConfig& config) {
  return config.schedule != kOneTileEach;
}

/// Of a launch that splits keys: a warpgroup of each of its blocks counts the parts of one tile, or of two.
constexpr std::uint32_t kPartCounters = 1024;

bool splits_keys(const KernelConfig& config) {
  return config.schedule == kSplitKeys;
}

LaunchShape shape_of(const AttentionProblem& problem, const KernelConfig& config, int sm_count) {
  const std::int64_t resident = std::int64_t{sm_count} * config.ctas_per_sm;
  std::int64_t blocks = most_query_tiles(problem, config);
  if (is_persistent(config)) blocks = std::min(blocks, resident);
  const std::int64_t counters_of_block = config.warps / 4 * (problem.batch_invariant ? 2 : 1);
  if (splits_keys(config)) blocks = std::min(resident, kPartCounters / counters_of_block);
  return {.grid = static_cast<std::uint32_t>(blocks)};
}

/// Where blocks leave the parts of tiles, two each, or those of two tiles (templates/attention/split_keys.cuh).
WorkspacePart scratch_for_parts(const AttentionProblem& problem, const AttentionParamsSm90& params) {
  const std::size_t floats_of_row = static_cast<std::size_t>(padded_dim(problem.head_dim_v)) + 4;
  const std::size_t parts = problem.batch_invariant ? 2 * kMostParts : 2;
  return {.bytes = parts * sizeof(float) * params.block_count * static_cast<std::size_t>(params.part_rows) *
                   floats_of_row,
          .is_scratch = true,
          .param = offsetof(AttentionParamsSm90, parts)};
}

void fill_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParams>()), call.problem, call.args);
}

/// All but what the workspace has.
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
  if (kind_of(config).params == KernelParams::attention) {
    step.constants.emplace(constants);
    step.fill = fill_sm80;
    return step;
  }
  AttentionParamsSm90 params{};
  params.attention = constants;
  params.block_count = step.shape.grid;
  if (splits_keys(config)) {
    step.shape.begins_early = true;
    const int rows = problem.batch_invariant ? most_split_rows(config.packed_heads) : config.tile_m;
    params.part_rows = std::min(rows, params.attention.q_rows);
    step.scratch = scratch_for_parts(problem, params);
  }
  step.constants.emplace(params);
  step.fill = fill_sm90;
  if (const std::uint32_t words = counter_words(config); words > 0) {
    step.workspace.bytes = words * sizeof *params.counters;
    step.workspace.param = offsetof(AttentionParamsSm90, counters);
    step.counters = std::move(counters);
  }
  return step;
}

}  // namespace fa2
