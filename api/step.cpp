// Fills the parameters in once, and launches.
#include <api/overlap.h>
#include <api/step.h>
#include <runtime/device.h>

namespace fa2 {
namespace {

MemoryRange memory_of(const Operand& operand, Access access) {
  const ByteRange range = range_of(operand);
  return {operand.name, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(range.begin)),
          static_cast<std::size_t>(range.end - range.begin), access};
}

/// What a step may touch in a call.
class StepMemory final : public LaunchMemory {
 public:
  StepMemory(const Step& step, const Operands& operands) : step_(step), operands_(operands) {}

  std::vector<MemoryRange> ranges() const override {
    std::vector<MemoryRange> ranges;
    for (const OperandUse& use : step_.uses) {
      const Operand& operand = operands_[use.role];
      if (!operand.is_absent()) ranges.push_back(memory_of(operand, use.access));
    }
    if (step_.counters) ranges.push_back(step_.counters->memory());
    return ranges;
  }

 private:
  const Step& step_;
  const Operands& operands_;
};

}  // namespace

void launch(const Step& step, const Call& call, Stream stream, int times) {
  ParamsBuffer params;
  step.fill(step, call, params);
  const StepMemory memory(step, call.operands);
  const bool counts = step.counters != nullptr;
  const bool captured = counts && stream != nullptr && is_capturing(stream);  // the default stream cannot be
  for (int i = 0; i < times; ++i) {
    if (counts) params.put(step.counter_at, step.counters->take(captured));
    step.kernel->launch(step.shape, params.data(), params.size(), stream, &memory);
  }
}

}  // namespace fa2
