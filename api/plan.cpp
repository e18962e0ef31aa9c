// AttentionPlan: validate once, launch each step.
#include <api/boundary.h>
#include <api/plan.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <runtime/written_bytes.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace fa2 {
void AttentionPlan::Impl::run(const AttentionArgs& args, const Operands& operands, Stream stream) const {
  if (steps.empty()) return require_valid(problem, args);
  const ScopedContext context(device);
  require_usable(violations_of(problem, args, operands), operands, device);
  if (checks_tables) require_sound_tables(problem, args, device, stream);
  WrittenBytes written;
  Call call{.problem = problem, .args = args, .operands = operands, .written = &written};
  for (const Step& step : steps) {
    std::optional<StreamMemory> lent;
    if (step.scratch.bytes > 0 && args.workspace == nullptr) {
      lent = scratch->take(step.scratch.bytes, stream);
      call.lent = static_cast<std::byte*>(lent->data());
    }
    launch(step, call, stream);
  }
}

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const try {
  impl_->run(args, operands_of(impl_->problem, args, impl_->workspace.bytes), stream);
} catch (...) {
  rethrow_as_error();
}

std::size_t AttentionPlan::workspace_bytes() const {
  return impl_->workspace.bytes;
}
std::size_t AttentionPlan::workspace_zeros() const {
  std::size_t end = 0;
  for (const Step& step : impl_->steps) {
    if (step.workspace.bytes > 0)
      end = std::max(end, step.workspace.begin + whole_part(step.workspace.bytes));
  }
  return end;
}
const AttentionProblem& AttentionPlan::problem() const {
  return impl_->problem;
}
const Explanation& AttentionPlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
