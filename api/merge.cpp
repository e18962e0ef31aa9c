// Context::merge(): validates, then launches a plan of one call.
#include <api/boundary.h>
#include <api/context.h>
#include <fa2/merge.h>
#include <operation/rules/validate.h>
#include <planning/merge.h>
#include <runtime/device.h>

#include <utility>
#include <vector>

namespace fa2 {

void Context::merge(const MergeProblem& problem, const MergeArgs& args, Stream stream) try {
  if (!violations_of(problem).empty()) throw InvalidRequest(violations_of_call(problem, args));
  if (is_empty(problem)) return;
  const std::vector<Operand> operands = operands_of(problem, args);
  const Device& gpu = device(current_device());
  const ScopedContext current(gpu.ordinal);
  require_usable(violations_of(args, operands), operands, gpu.ordinal);
  const RowKernel kernel = merge_kernel_of(problem, operands);
  const LoadedKernel loaded = impl_->load_kernel_of(Operation::merge, kernel, gpu, stream);
  launch(plan_merge(problem, loaded.kernel), args, operands, nullptr, stream);
} catch (...) {
  rethrow_as_error();
}

void merge(const MergeProblem& problem, const MergeArgs& args, Stream stream) {
  Context::default_context().merge(problem, args, stream);
}

}  // namespace fa2
