// Context::append(): validates, then launches a plan of one call.
#include <api/boundary.h>
#include <api/context.h>
#include <fa2/append.h>
#include <operation/rules/check_append.h>
#include <operation/rules/validate.h>
#include <planning/append.h>
#include <runtime/device.h>

#include <utility>
#include <vector>

namespace fa2 {

void Context::append(const AppendProblem& problem, const AppendArgs& args, Stream stream) try {
  if (!violations_of(problem).empty()) throw InvalidRequest(violations_of_call(problem, args));
  if (is_empty(problem)) return;
  const std::vector<Operand> operands = operands_of(problem, args);
  const Device& gpu = device(current_device());
  const ScopedContext current(gpu.ordinal);
  require_usable(violations_of(problem, args, operands), operands, gpu.ordinal);
  if (impl_->settings.check || gpu.arch.interpreted) require_sound_tables(problem, args, gpu.ordinal, stream);
  const LoadedKernel loaded =
      impl_->load_kernel_of(Operation::append, append_kernel_of(problem, operands), gpu, stream);
  launch(plan_append(problem, loaded.kernel), args, operands, nullptr, stream);
} catch (...) {
  rethrow_as_error();
}

void append(const AppendProblem& problem, const AppendArgs& args, Stream stream) {
  Context::default_context().append(problem, args, stream);
}

}  // namespace fa2
