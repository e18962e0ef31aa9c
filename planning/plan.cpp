// Divides the workspace among the steps, and launches them.
#include <planning/capture_sums.h>
#include <planning/held_maps.h>
#include <planning/plan.h>
#include <planning/widened_keys.h>
#include <runtime/fill.h>
#include <runtime/written_bytes.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace fa2 {
namespace {

/// Launches a step that widens keys and values, and then those that read them.
void launch_widened(const Plan& plan, const Call& call, Stream stream) {
  const WidenedCall widened(*plan.widened, call);
  bool is_first = true;
  for (const Step& step : plan.steps) {
    const Call& of_step = std::exchange(is_first, false) ? call : widened.call();
    if (!is_held(step, of_step)) launch(step, of_step, stream);
  }
}

/// Sets the largest logits, which kernels raise, to -infinity.
void start_max_logits(const Plan& plan, const Call& call, Stream stream) {
  if (!plan.problem.max_logits || call.operands[Role::max_logits].is_absent()) return;
  const Operand& logits = call.operands[Role::max_logits];
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float* const data = static_cast<float*>(const_cast<void*>(logits.data));
  const std::size_t count = size_in_bytes(logits) / sizeof(float);
  if (plan.device != kInterpreterDevice) return fill(data, count, kNone, stream);
  std::fill_n(data, count, kNone);
}

}  // namespace

void Plan::add(Step step) {
  step.counters.begin = workspace.counter_bytes;
  workspace.counter_bytes += whole_part(step.counters.bytes);
  for (const WorkspacePart& part : {step.scratch, step.texts.map_part})
    workspace.scratch_bytes = std::max(workspace.scratch_bytes, part.begin + whole_part(part.bytes));
  steps.push_back(std::move(step));
}

void launch(const Plan& plan, const AnyRef& args, OperandList operands, void* workspace, Stream stream,
            CounterPlace counters) {
  WrittenBytes written;
  Call call{.problem = plan.problem, .args = args, .operands = operands, .written = &written};
  std::optional<StreamMemory> borrowed;
  if (workspace != nullptr) {
    auto* const begin = static_cast<std::byte*>(workspace);
    if (counters == CounterPlace::workspace) call.counters = begin;
    call.scratch = begin + plan.workspace.scratch_begin();
  } else if (plan.workspace.scratch_bytes > 0) {
    borrowed = plan.scratch->take(plan.workspace.scratch_bytes, stream);
    call.scratch = static_cast<std::byte*>(borrowed->data());
  }
  start_max_logits(plan, call, stream);
  const std::optional<StreamMemory> capture_sums = start_capture_gradients(plan, call, stream);
  if (plan.widened) return launch_widened(plan, call, stream);
  for (const Step& step : plan.steps)
    if (!is_held(step, call)) launch(step, call, stream);
}

}  // namespace fa2
