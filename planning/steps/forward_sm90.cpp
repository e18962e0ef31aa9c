// The launch of the sm90 forward kernel: tensor maps, and blocks that stay for several tiles.
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/steps/forward.h>
#include <planning/tensor_maps.h>

#include <algorithm>
#include <cstddef>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr std::size_t kShares = offsetof(AttentionParamsSm90, shares);

void fill_forward_sm90(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const AttentionArgs& args = call.args.as<AttentionArgs>();
  AttentionParamsSm90& params = buffer.emplace(step.constants.as<AttentionParamsSm90>());
  add_call(params.attention, call.problem, args);
  params.max_logits = args.max_logits;
  fill_tensor_maps(call.problem, step.config, call.operands, params, args.query_pieces);
}

WorkShares shares_of(const StepRequest& request, Step& step) {
  const KernelConfig& config = request.config;
  const int teams = config.warps / 4 / config.column_warps;
  if (splits_keys(config)) return forward_steps::split_keys(request, teams, kShares, step);
  WorkShares shares{};
  if (config.schedule != kOneTileEach)
    step.shape.grid = std::min(step.shape.grid, forward_steps::resident_blocks(request));
  if (config.schedule == kDynamicPersistent)
    step.counters = {.bytes = sizeof *shares.counters, .param = kShares + offsetof(WorkShares, counters)};
  shares.block_count = step.shape.grid;
  return shares;
}

}  // namespace

Step forward_sm90_step(const StepRequest& request) {
  Step step = forward_steps::of_tiles(request);
  step.texts.place = offsetof(AttentionParamsSm90, attention);
  AttentionParamsSm90 params{};
  params.attention = constants_of(request.problem.as<AttentionProblem>(), request.config);
  params.shares = shares_of(request, step);
  step.constants.emplace(params);
  step.fill = fill_forward_sm90;
  return step;
}

}  // namespace fa2
