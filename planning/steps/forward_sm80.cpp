// The launch of the sm80 forward kernel.
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/steps/forward.h>

namespace fa2 {
namespace {

void fill_forward_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const AttentionArgs& args = call.args.as<AttentionArgs>();
  AttentionParamsSm80& params = buffer.emplace(step.constants.as<AttentionParamsSm80>());
  add_call(params.attention, call.problem, args);
  params.max_logits = args.max_logits;
}

}  // namespace

Step forward_sm80_step(const StepRequest& request) {
  Step step = forward_steps::of_tiles(request);
  AttentionParamsSm80 params{};
  params.attention = constants_of(request.problem.as<AttentionProblem>(), request.config);
  step.constants.emplace(params);
  step.fill = fill_forward_sm80;
  return step;
}

}  // namespace fa2
