#include <generator/kernel_kind.h>
#include <planning/put_messages.h>
#include <planning/step_request.h>

#include <utility>

namespace fa2 {

Plan plan_put(const PutParams& params, std::shared_ptr<const Kernel> kernel) {
  Plan plan;
  plan.add(kernels::put_messages.make_step(
      {.problem = params, .config = kernels::put_messages.default_config, .kernel = std::move(kernel)}));
  return plan;
}

}  // namespace fa2
