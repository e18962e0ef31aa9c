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
void require_usable(const AttentionProblem& problem, const AttentionArgs& args, int device) {
  std::vector<Violation> found = violations_of(problem, args);
  AttentionArgs used = args;
  if (problem.seqlen_k == 0) used.k = used.v = nullptr;
  std::vector<Violation> elsewhere;
  if (device != kInterpreterDevice) elsewhere = violations_of_residency(used, device);
  if (found.empty() && elsewhere.empty()) return;
  std::ranges::move(elsewhere, std::back_inserter(found));
  throw InvalidProblem(std::move(found));
}

/// The tensors of one call.
class CallMemory final : public LaunchMemory {
 public:
  CallMemory(const AttentionPlan::Impl& plan, const AttentionArgs& args)
      : problem_(plan.problem), counters_(plan.launch.counters.get()), args_(args) {}

  std::vector<MemoryRange> ranges() const override {
    std::vector<MemoryRange> ranges;
    for (const TensorView& view : views_of(problem_, args_)) {
      if (!view.empty()) ranges.push_back(bytes_of(view));
    }
    ranges.back().is_output = true;  // O comes last and has rows: else nothing is launched
    if (args_.lse != nullptr) {
      const auto rows = static_cast<std::size_t>(problem_.batch * problem_.heads_q * problem_.seqlen_q);
      ranges.push_back({"lse", reinterpret_cast<const std::byte*>(args_.lse), rows * sizeof(float), true});
    }
    if (counters_ != nullptr) ranges.push_back(counters_->memory());
    return ranges;
  }

 private:
  static MemoryRange bytes_of(const TensorView& view) {
    const ByteRange range = range_of(view);
    return {view.name, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(range.begin)),
            static_cast<std::size_t>(range.end - range.begin)};
  }

  const AttentionProblem& problem_;
  const LaunchCounters* counters_;
  const AttentionArgs& args_;
};

}  // namespace

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const try {
  const Impl& plan = *impl_;
  if (plan.launch.grid == 0) return require_valid(plan.problem, args);
  const ScopedContext context(plan.device);
  require_usable(plan.problem, args, plan.device);
  const CallMemory memory(plan, args);
  start(*plan.kernel, plan.launch, plan.problem, args, stream, &memory);
} catch (...) {
  rethrow_as_error();
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
