// AttentionPlan and BackwardPlan: validate, then launch every step.
#include <api/boundary.h>
#include <api/plan.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <cstddef>
#include <utility>

namespace fa2 {

bool operator==(const Gradients&, const Gradients&) = default;

void run(const Plan& plan, const AttentionArgs& args, const Operands& operands, Stream stream,
         CounterPlace counters) {
  if (plan.steps.empty()) return require_valid(plan.problem, args);
  const ScopedContext context(plan.device);
  Violations found = violations_of(plan.problem, args, operands);
  check_captured_residency(found, plan.problem, args, plan.device);
  require_usable(std::move(found), operands, plan.device);
  if (plan.checks_tables) require_sound_tables(plan.problem, args, plan.device, stream);
  launch(plan, args, operands, args.workspace, stream, counters);
}

void run(const Plan& plan, const BackwardArgs& args, const BackwardOperands& operands, Stream stream) {
  const ScopedContext context(plan.device);
  Violations found = violations_of(plan.problem, plan.gradients, args, operands);
  check_captured_residency(found, plan.problem, args.forward, plan.device);
  require_usable(std::move(found), operands, plan.device);
  if (plan.steps.empty()) return;
  if (plan.checks_tables) require_sound_tables(plan.problem, args.forward, plan.device, stream);
  launch(plan, args, operands, args.workspace, stream);
}

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const try {
  fa2::run(*plan_, args, operands_of(plan_->problem, args, plan_->workspace.bytes()), stream);
} catch (...) {
  rethrow_as_error();
}

std::size_t AttentionPlan::workspace_bytes() const {
  return plan_->workspace.bytes();
}
std::size_t AttentionPlan::workspace_zeros() const {
  return plan_->workspace.counter_bytes;
}
const AttentionProblem& AttentionPlan::problem() const {
  return plan_->problem;
}
const Explanation& AttentionPlan::explain() const {
  return plan_->explanation;
}

void BackwardPlan::run(const BackwardArgs& args, Stream stream) const try {
  fa2::run(*plan_, args, backward_operands_of(plan_->problem, args, plan_->workspace.bytes()), stream);
} catch (...) {
  rethrow_as_error();
}

std::size_t BackwardPlan::workspace_bytes() const {
  return plan_->workspace.bytes();
}
const AttentionProblem& BackwardPlan::problem() const {
  return plan_->problem;
}
const Explanation& BackwardPlan::explain() const {
  return plan_->explanation;
}

BackwardArgs backward_args(const AttentionArgs& forward) {
  BackwardArgs args;
  args.forward = forward;
  return args;
}

}  // namespace fa2
