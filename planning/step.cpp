// Fills the parameters in once, and launches.
#include <operation/operands/memory_ranges.h>
#include <planning/step.h>
#include <runtime/graph.h>

namespace fa2 {
namespace {

/// A part of the caller's workspace; null if it has no bytes, or the context has them.
std::byte* place_of(const WorkspacePart& part, const AttentionArgs& args) {
  if (part.bytes == 0 || args.workspace == nullptr) return nullptr;
  return static_cast<std::byte*>(args.workspace) + part.begin;
}

/// Of the caller's workspace, or of what was lent.
std::byte* scratch_of(const Step& step, const Call& call) {
  if (step.scratch.bytes == 0 || call.args.workspace != nullptr) return place_of(step.scratch, call.args);
  return call.lent;
}

MemoryRange range_of(const WorkspacePart& part, const std::byte* begin) {
  return {.name = "workspace",
          .begin = begin,
          .bytes = part.bytes,
          .access = part.access,
          .initialised = !part.is_scratch};
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
    if (const std::byte* const scratch = scratch_of(step_, call_))
      ranges.push_back(range_of(step_.scratch, scratch));
    if (const std::byte* const workspace = place_of(step_.workspace, call_.args)) {
      ranges.push_back(range_of(step_.workspace, workspace));
    } else if (step_.counters) {
      ranges.push_back(step_.counters->memory());
    }
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
  std::byte* const workspace = place_of(step.workspace, call.args);
  if (workspace != nullptr) params.put(step.workspace.param, workspace);
  if (std::byte* const scratch = scratch_of(step, call)) params.put(step.scratch.param, scratch);
  const bool borrows = workspace == nullptr && step.counters != nullptr;
  const Graph graph = borrows ? capturing_graph(stream) : nullptr;
  for (int i = 0; i < times; ++i) {
    if (borrows) params.put(step.workspace.param, step.counters->take(graph));
    step.kernel->launch(step.shape, params.data(), params.size(), stream, &memory);
  }
}

}  // namespace fa2
