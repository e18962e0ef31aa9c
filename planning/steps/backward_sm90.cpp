// The launch of the fused backward kernel on wgmma: tensor maps, and BackwardParams behind them.
#include <generator/kernels/backward_sm90.h>
#include <generator/kernels/launch_steps.h>
#include <planning/steps/backward.h>
#include <planning/tensor_maps.h>

#include <cstddef>

namespace fa2 {
namespace {

void fill_backward_sm90(const Step& step, const Call& call, ParamsBuffer& buffer) {
  BackwardParamsSm90& params = buffer.emplace(step.constants.as<BackwardParamsSm90>());
  backward_steps::add_call(params.backward, call);
  fill_tensor_maps(call.problem, step.config, call.operands, params,
                   call.args.as<BackwardArgs>().forward.query_pieces);
}

}  // namespace

Step backward_sm90_step(const StepRequest& request) {
  Step step = backward_steps::of_tiles(request, offsetof(BackwardParamsSm90, backward));
  step.texts.place = offsetof(BackwardParamsSm90, backward);
  BackwardParamsSm90 params{};
  params.backward = backward_steps::constants_of(request);
  step.constants.emplace(params);
  step.fill = fill_backward_sm90;
  return step;
}

}  // namespace fa2
