// AttentionPlan: validate, fill in the parameters, launch.
#include <api/plan.h>
#include <api/validate.h>
#include <runtime/device.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// Everything wrong with the arguments, where the driver knows their addresses: the device's context is
/// current.
void require_usable(const AttentionProblem& problem, const AttentionArgs& args, int device) {
  std::vector<Violation> found = violations_of(problem, args);
  AttentionArgs used = args;
  if (problem.seqlen_k == 0) used.k = used.v = nullptr;
  std::vector<Violation> elsewhere = violations_of_residency(used, device);
  if (found.empty() && elsewhere.empty()) return;
  std::ranges::move(elsewhere, std::back_inserter(found));
  throw InvalidProblem(std::move(found));
}

}  // namespace

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const {
  const Impl& plan = *impl_;
  if (plan.launch.grid == 0) return require_valid(plan.problem, args);
  const ScopedContext context(plan.device);
  require_usable(plan.problem, args, plan.device);
  const AttentionParams params = params_of(plan.launch, plan.problem, args);
  plan.kernel->launch(plan.launch.grid, &params, sizeof params, stream);
}

const AttentionProblem& AttentionPlan::problem() const {
  return impl_->problem;
}
const KernelConfig& AttentionPlan::config() const {
  return impl_->explanation.config;
}
const Explanation& AttentionPlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
