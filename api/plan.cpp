// AttentionPlan: validate, fill in the parameters, launch.
#include <api/boundary.h>
#include <api/overlap.h>
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
void require_usable(const AttentionPlan::Impl& plan, const AttentionArgs& args, const Operands& operands) {
  std::vector<Violation> found = violations_of(plan.problem, args, operands);
  std::vector<Violation> elsewhere;
  if (plan.device != kInterpreterDevice) elsewhere = violations_of_residency(operands, plan.device);
  if (found.empty() && elsewhere.empty()) return;
  std::ranges::move(elsewhere, std::back_inserter(found));
  throw InvalidProblem(std::move(found));
}

/// The tensors of one call, and what its launches count with.
class CallMemory final : public LaunchMemory {
 public:
  CallMemory(const Operands& operands, const LaunchCounters* counters)
      : operands_(operands), counters_(counters) {}

  std::vector<MemoryRange> ranges() const override {
    std::vector<MemoryRange> ranges;
    for (const Operand& operand : operands_) {
      if (!operand.is_absent()) ranges.push_back(memory_of(operand));
    }
    if (counters_ != nullptr) ranges.push_back(counters_->memory());
    return ranges;
  }

 private:
  static MemoryRange memory_of(const Operand& operand) {
    const ByteRange range = range_of(operand);
    return {operand.name, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(range.begin)),
            static_cast<std::size_t>(range.end - range.begin), operand.access};
  }

  const Operands& operands_;
  const LaunchCounters* counters_;
};

}  // namespace

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const try {
  const Impl& plan = *impl_;
  if (plan.launch.grid == 0) return require_valid(plan.problem, args);
  const ScopedContext context(plan.device);
  const Operands operands = operands_of(plan.problem, args);
  require_usable(plan, args, operands);
  const CallMemory memory(operands, plan.launch.counters.get());
  start(*plan.kernel, plan.launch, {plan.problem, args, operands}, stream, &memory);
} catch (...) {
  rethrow_as_error();
}

const AttentionProblem& AttentionPlan::problem() const {
  return impl_->problem;
}
const Explanation& AttentionPlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
