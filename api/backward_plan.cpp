// BackwardPlan: validate once, launch each step.
#include <api/backward_plan.h>
#include <api/boundary.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <runtime/written_bytes.h>

namespace fa2 {

bool operator==(const Gradients&, const Gradients&) = default;

void BackwardPlan::Impl::run(const BackwardArgs& args, OperandList operands, Stream stream) const {
  const ScopedContext context(device);
  require_usable(violations_of(problem, gradients, args, operands), operands, device);
  if (steps.empty()) return;
  if (checks_tables) require_sound_tables(problem, args.forward, device, stream);
  AttentionArgs forward = args.forward;
  const bool borrows = args.workspace == nullptr;
  const StreamMemory lent = scratch->take(borrows ? scratch_bytes : 0, stream);
  forward.workspace = borrows ? lent.data() : args.workspace;
  WrittenBytes written;
  const Call call{
      .problem = problem, .args = forward, .operands = operands, .written = &written, .backward = &args};
  for (const Step& step : steps) launch(step, call, stream);
}

void BackwardPlan::run(const BackwardArgs& args, Stream stream) const try {
  impl_->run(args, backward_operands_of(impl_->problem, args, impl_->scratch_bytes), stream);
} catch (...) {
  rethrow_as_error();
}

std::size_t BackwardPlan::workspace_bytes() const {
  return impl_->scratch_bytes;
}
const AttentionProblem& BackwardPlan::problem() const {
  return impl_->problem;
}
const Explanation& BackwardPlan::explain() const {
  return impl_->explanation;
}

BackwardArgs backward_args(const AttentionArgs& forward) {
  BackwardArgs args;
  args.forward = forward;
  return args;
}

}  // namespace fa2
