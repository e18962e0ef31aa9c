// The launch of an exchange, whose parameters are constants.
#include <generator/kernels/launch_steps.h>
#include <planning/step_request.h>

#include <templates/attention/rows/put_params.cuh>

namespace fa2 {
namespace {

void fill_put(const Step& step, const Call&, ParamsBuffer& buffer) {
  buffer.emplace(step.constants.as<PutParams>());
}

}  // namespace

Step put_messages_step(const StepRequest& request) {
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = kPutBlocks};
  step.constants.emplace(request.problem.as<PutParams>());
  step.fill = fill_put;
  return step;
}

}  // namespace fa2
