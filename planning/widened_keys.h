// Forwards over 8-bit keys and values in two steps: the first widens these to 16 bits, in scratch memory, and the second is a
// forward of the widened problem.
#pragma once

#include <autotune/config_choice.h>
#include <fa2/args.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <runtime/kernel.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fa2 {

/// Where widened keys and values lie: contiguous (entries, rows, heads_kv, columns).
struct WidenedLayout {
  std::int64_t entries = 0;  ///< sequences, or 1 if these are packed
  std::int64_t rows = 0;     ///< per entry
  std::size_t values = 0;    ///< offset of the values, behind the keys; bytes
  std::size_t bytes = 0;     ///< of both
};
WidenedLayout widened_layout(const AttentionProblem& problem);

/// Returns the problem of the second step: with KvType::scaled and without pages.
PlannedProblem widened_problem(PlannedProblem problem);

/// Returns whether some problem of these traits takes two steps on this arch: the tensor cores that only TMA feeds are there.
bool may_widen(const PlannedProblem& traits, const Arch& arch);

/// Returns whether a plan of this problem takes two steps: if many queries read each key, and the memory is not too much. With a
/// pinned kernel, if that one needs it. Never with batch_invariant, whose bits must not depend on lengths.
bool widens_keys(const PlannedProblem& problem, const Target& target, const ConfigChooser& chooser);

/// Returns the first step's kernel, and the choice of it.
RowKernel widen_kernel(const PlannedProblem& problem);
ConfigChoice widen_choice();

/// Adds the first step to a plan of `plan.problem`, and sets `plan.widened`.
void add_widening(Plan& plan, std::shared_ptr<const Kernel> kernel);

/// The second step's view of a call.
class WidenedCall {
 public:
  WidenedCall(const AttentionProblem& widened, const Call& call);
  WidenedCall(const WidenedCall&) = delete;

  const Call& call() const { return call_; }

 private:
  AttentionArgs args_;
  Operands operands_;
  Call call_;
};

}  // namespace fa2
