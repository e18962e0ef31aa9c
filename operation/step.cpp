// Fills the parameters in once, and launches.
#include <operation/memory_ranges.h>
#include <operation/step.h>
#include <runtime/graph.h>

namespace fa2 {
namespace {

/// The step's part of the caller's workspace; null if it needs none, or the context has it.
std::byte* workspace_of(const Step& step, const AttentionArgs& args) {
  if (step.workspace.bytes == 0 || args.workspace == nullptr) return nullptr;
  return static_cast<std::byte*>(args.workspace) + step.workspace.begin;
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
    if (const std::byte* const workspace = workspace_of(step_, call_.args)) {
      ranges.push_back({.name = "workspace",
                        .begin = workspace,
                        .bytes = step_.workspace.bytes,
                        .access = step_.workspace.access,
                        .initialised = !step_.workspace.is_scratch});
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
  std::byte* const workspace = workspace_of(step, call.args);
  if (workspace != nullptr) params.put(step.workspace.param, workspace);
  const bool borrows = workspace == nullptr && step.counters != nullptr;
  const Graph graph = borrows ? capturing_graph(stream) : nullptr;
  for (int i = 0; i < times; ++i) {
    if (borrows) params.put(step.workspace.param, step.counters->take(graph));
    step.kernel->launch(step.shape, params.data(), params.size(), stream, &memory);
  }
}

}  // namespace fa2
