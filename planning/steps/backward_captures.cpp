// The launch of the kernel of captures' gradients: BackwardParams, and how it sums.
#include <generator/kernels/launch_steps.h>
#include <planning/steps/backward.h>

#include <cstddef>

namespace fa2 {

Step backward_captures_step(const StepRequest& request) {
  Step step = backward_steps::of_tiles(request, offsetof(CaptureGradientParams, backward));
  CaptureGradientParams params{};
  params.backward = backward_steps::constants_of(request);
  params.kind = CaptureSums::any_order;
  params.blocks = step.shape.grid;
  step.constants.emplace(params);
  step.fill = [](const Step& filled, const Call& call, ParamsBuffer& buffer) {
    CaptureGradientParams& of_call = buffer.emplace(filled.constants.as<CaptureGradientParams>());
    backward_steps::add_call(of_call.backward, call);
    of_call.sums = reinterpret_cast<long long*>(call.capture_sums.data());
  };
  return step;
}

}  // namespace fa2
