// Fills the parameters in once, and launches.
#include <api/overlap.h>
#include <api/step.h>
#include <runtime/graph.h>

namespace fa2 {
namespace {

MemoryRange memory_of(const Operand& operand, Access access) {
  const ByteRange range = range_of(operand);
  return {.name = operand.name,
          .begin = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(range.begin)),
          .bytes = static_cast<std::size_t>(range.end - range.begin),
          .access = access,
          .initialised = operand.access != Access::write};
}

/// What a step may touch in a call.
class StepMemory final : public LaunchMemory {
 public:
  StepMemory(const Step& step, const Call& call) : step_(step), call_(call) {}

  std::vector<MemoryRange> ranges() const override {
    std::vector<MemoryRange> ranges;
    for (const OperandUse& use : step_.uses) {
      const Operand& operand = call_.operands[use.role];
      if (!operand.is_absent()) ranges.push_back(memory_of(operand, use.access));
    }
    if (step_.counters) ranges.push_back(step_.counters->memory());
    return ranges;
  }
  WrittenBytes* written() const override { return call_.written; }

 private:
  const Step& step_;
  const Call& call_;
};

}  // namespace

void launch(const Step& step, const Call& call, Stream stream, int times) {
  ParamsBuffer params;
  step.fill(step, call, params);
  const StepMemory memory(step, call);
  const bool counts = step.counters != nullptr;
  const Graph graph = counts ? capturing_graph(stream) : nullptr;
  for (int i = 0; i < times; ++i) {
    if (counts) params.put(step.counter_at, step.counters->take(graph));
    step.kernel->launch(step.shape, params.data(), params.size(), stream, &memory);
  }
}

}  // namespace fa2
