// The arithmetic of a forward's launch.
#include <generator/kernel_kind.h>
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

LaunchShape shape_of(std::int64_t tiles, const KernelConfig& config, int sm_count) {
  std::int64_t blocks = tiles;
  if (is_persistent(config))
    blocks = std::min<std::int64_t>(blocks, std::int64_t{sm_count} * config.ctas_per_sm);
  return {static_cast<std::uint32_t>(blocks)};
}

void fill_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParams>()), call.problem, call.args);
}

/// All but next_tile, which each launch has for itself.
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

bool needs_counter(const KernelConfig& config) {
  return config.schedule == kDynamicPersistent;
}

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count,
                  std::shared_ptr<LaunchCounters> counters) {
  const AttentionParams constants = constants_of(problem, config);
  Step step;
  step.kernel = std::move(kernel);
  step.config = config;
  step.shape = shape_of(most_query_tiles(problem, config), config, sm_count);
  step.uses = every_operand(problem);
  if (kind_of(config).params == KernelParams::attention) {
    step.constants.emplace(constants);
    step.fill = fill_sm80;
    return step;
  }
  AttentionParamsSm90 params{};
  params.attention = constants;
  params.block_count = step.shape.grid;
  step.constants.emplace(params);
  step.fill = fill_sm90;
  if (needs_counter(config)) {
    step.workspace.bytes = sizeof *params.next_tile;
    step.workspace.param = offsetof(AttentionParamsSm90, next_tile);
    step.counters = std::move(counters);
  }
  return step;
}

}  // namespace fa2
