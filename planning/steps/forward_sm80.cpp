// The launch of the sm80 forward kernel.
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/steps/forward.h>

namespace fa2 {
namespace {

void fill_forward_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParams>()), call.problem, call.args.as<AttentionArgs>());
}

}  // namespace

Step forward_sm80_step(const StepRequest& request) {
  Step step = forward_steps::of_tiles(request);
  step.constants.emplace(constants_of(request.problem.as<AttentionProblem>(), request.config));
  step.fill = fill_forward_sm80;
  return step;
}

}  // namespace fa2
