// The launches that compute one operation.
#pragma once

#include <fa2/backward.h>
#include <generator/kernel_spec.h>
#include <operation/operands/workspace.h>
#include <planning/step.h>
#include <runtime/stream_memory.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

/// A forward, a backward, an append, a merge or a dropout mask, ready for one device. Immutable once it is made; any thread may
/// use it then.
struct Plan {
  PlannedProblem
      problem;  ///< normalized; defaults for append() and merge(), whose steps hold their own problem
  /// The problem of all steps but the first, if that one widens keys and values for them (planning/widened_keys.h).
  std::optional<PlannedProblem> widened;
  Gradients gradients;  ///< of a backward
  int device = 0;
  std::vector<Step> steps;  ///< in launch order; empty: there is nothing to compute
  WorkspaceLayout workspace;
  std::shared_ptr<const ScratchPool>
      scratch;  ///< provides scratch to calls without a workspace; null if no step needs it
  bool checks_tables =
      false;  ///< whether every run reads the sequences' tables first, and so waits for the stream
  Explanation explanation;

  /// Appends a step and gives it its parts of the workspace.
  void add(Step step);
};

/// Where the counters of a call with a workspace lie: in it, or in the Context's memory.
enum class CounterPlace : std::uint8_t { workspace, context };

/// Launches all steps in the plan's device's context, which must be current. `args` and `operands` are valid arguments of the
/// plan's operation. Takes no lock and allocates nothing, except as launch() does and for scratch without a `workspace`.
void launch(const Plan& plan, const AnyRef& args, OperandList operands, void* workspace, Stream stream,
            CounterPlace counters = CounterPlace::workspace);

}  // namespace fa2
