// The launch of the split-KV forward kernel for mma.sync.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/steps/forward.h>

#include <cstddef>

namespace fa2 {
namespace {

void fill_forward_split(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const AttentionArgs& args = call.args.as<AttentionArgs>();
  AttentionParamsSplit& params = buffer.emplace(step.constants.as<AttentionParamsSplit>());
  add_call(params.attention, call.problem, args);
  params.max_logits = args.max_logits;
}

}  // namespace

Step forward_split_step(const StepRequest& request) {
  constexpr int kTeams = 1;  // the block merges its warps' partial outputs before it stores one
  Step step = forward_steps::of_tiles(request);
  AttentionParamsSplit params{};
  params.attention = constants_of(request.problem.as<AttentionProblem>(), request.config);
  if (splits_keys(request.config))
    params.shares = forward_steps::split_keys(request, kTeams, offsetof(AttentionParamsSplit, shares), step);
  step.constants.emplace(params);
  step.fill = fill_forward_split;
  return step;
}

}  // namespace fa2
