// Fills the parameters once, then launches.
#include <operation/operands/memory_ranges.h>
#include <planning/step.h>
#include <planning/text_params.h>
#include <runtime/graph.h>

#include <algorithm>

namespace fa2 {
namespace {

/// Returns the part's address in memory that begins at `begin`; null if the part is empty or there is no such
/// memory.
std::byte* address_of(const WorkspacePart& part, std::byte* begin) {
  return part.bytes == 0 || begin == nullptr ? nullptr : begin + part.begin;
}

/// The memory that a step may touch in a call.
class StepMemory final : public LaunchMemory {
 public:
  StepMemory(const Step& step, const Call& call) : step_(step), call_(call) {}

  std::vector<MemoryRange> ranges() const override {
    std::vector<MemoryRange> ranges = operand_ranges();
    if (const std::byte* const scratch = address_of(step_.scratch, call_.scratch))
      ranges.push_back({"workspace", scratch, step_.scratch.bytes, step_.scratch.access, false});
    if (const std::byte* const counters = address_of(step_.counters, call_.counters)) {
      ranges.push_back({"workspace", counters, step_.counters.bytes, step_.counters.access});
    } else if (step_.context_counters) {
      ranges.push_back(step_.context_counters->memory());
    }
    add_text_memory(ranges, step_, call_);
    return ranges;
  }
  WrittenBytes* written() const override { return call_.written; }

 private:
  std::vector<MemoryRange> operand_ranges() const {
    if (step_.uses.empty()) return OperandMemory(call_.operands).ranges();
    std::vector<MemoryRange> ranges;
    for (const OperandUse& use : step_.uses) {
      const Operand& operand = call_.operands[use.role];
      if (!operand.is_absent()) ranges.push_back(memory_of(operand, use.access));
    }
    return ranges;
  }

  const Step& step_;
  const Call& call_;
};

}  // namespace

std::vector<Role> operands_written(std::span<const Step> steps) {
  std::vector<Role> written;
  for (const Step& step : steps) {
    for (const OperandUse& use : step.uses)
      if (use.access != Access::read) written.push_back(use.role);
  }
  std::ranges::sort(written);
  written.erase(std::unique(written.begin(), written.end()), written.end());
  return written;
}

void launch(const Step& step, const Call& call, Stream stream, int times) {
  ParamsBuffer params;
  step.fill(step, call, params);
  const StepMemory memory(step, call);
  std::byte* const counters = address_of(step.counters, call.counters);
  if (counters != nullptr) params.put(step.counters.param, counters);
  if (std::byte* const scratch = address_of(step.scratch, call.scratch))
    params.put(step.scratch.param, scratch);
  const bool borrows = counters == nullptr && step.context_counters != nullptr;
  const Capture capture = borrows ? capture_of(stream) : Capture{};
  for (int i = 0; i < times; ++i) {
    if (borrows) params.put(step.counters.param, step.context_counters->take(capture, stream));
    if (step.texts.are_empty()) {
      step.kernel->launch(step.shape, params.data(), params.size(), stream, &memory);
      continue;
    }
    ParamsBuffer with_texts = params;
    insert_text_params(with_texts, step, call);
    step.kernel->launch(step.shape, with_texts.data(), with_texts.size(), stream, &memory);
  }
}

}  // namespace fa2
