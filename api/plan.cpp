// AttentionPlan and BackwardPlan: validate, then launch every step.
#include <api/boundary.h>
#include <api/plan.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <planning/held_maps.h>
#include <runtime/device.h>

#include <cstddef>
#include <utility>

namespace fa2 {

bool operator==(const Gradients&, const Gradients&) = default;

namespace {

/// Throws everything wrong with what every operation of attention checks, beside `found`.
void require_sound(const Plan& plan, Violations found, const AttentionArgs& args, OperandList operands,
                   Stream stream) {
  check_captured_residency(found, plan.problem, args, plan.device);
  check_block_map(found, plan.problem, args, plan.device);
  require_usable(std::move(found), operands, plan.device);
  if (plan.checks_tables && !plan.steps.empty())
    require_sound_tables(plan.problem, args, plan.device, stream);
}

}  // namespace

AttentionArgs with_map(AttentionArgs args, const BlockMap& map) {
  args.block_map = &map;
  args.block_map_version = map.version();
  return args;
}

BackwardArgs with_map(BackwardArgs args, const BlockMap& map) {
  args.forward = with_map(args.forward, map);
  return args;
}

void run(const Plan& plan, const AttentionArgs& args, const Operands& operands, Stream stream,
         CounterPlace counters) {
  if (plan.steps.empty()) return require_valid(plan.problem, args);
  const ScopedContext context(plan.device);
  require_sound(plan, violations_of(plan.problem, args, operands), args, operands, stream);
  launch(plan, args, operands, args.workspace, stream, counters);
}

void run(const Plan& plan, const BackwardArgs& args, const BackwardOperands& operands, Stream stream) {
  const ScopedContext context(plan.device);
  Violations found = violations_of(plan.problem, plan.gradients, args, operands);
  check_gradient_residency(found, plan.problem, args, plan.device);
  require_sound(plan, std::move(found), args.forward, operands, stream);
  if (!plan.steps.empty() || plan.gradients.d_captures) launch(plan, args, operands, args.workspace, stream);
}

void map_blocks(const Plan& plan, const AttentionArgs& args, const BlockMap& map, Stream stream,
                const AllocateMap& allocate) {
  const AttentionArgs with = with_map(args, map);
  if (plan.steps.empty()) return require_valid(plan.problem, with);
  const ScopedContext context(plan.device);
  const Operands operands = operands_of(plan.problem, with, plan.workspace.bytes());
  require_sound(plan, violations_of(plan.problem, with, operands), with, operands, stream);
  map_blocks(plan, with, operands, map.impl(), stream, allocate);
}

void map_blocks(const Plan& plan, const BackwardArgs& args, const BlockMap& map, Stream stream,
                const AllocateMap& allocate) {
  const BackwardArgs with = with_map(args, map);
  const ScopedContext context(plan.device);
  const BackwardOperands operands = backward_operands_of(plan.problem, with, plan.workspace.bytes());
  require_sound(plan, violations_of(plan.problem, plan.gradients, with, operands), with.forward, operands,
                stream);
  map_blocks(plan, with, operands, map.impl(), stream, allocate);
}

void AttentionPlan::run(const AttentionArgs& args, Stream stream) const try {
  fa2::run(*plan_, args, operands_of(plan_->problem, args, plan_->workspace.bytes()), stream);
} catch (...) {
  rethrow_as_error();
}

void AttentionPlan::map_blocks(const AttentionArgs& args, const BlockMap& map, Stream stream) const try {
  fa2::map_blocks(*plan_, args, map, stream);
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

void BackwardPlan::map_blocks(const BackwardArgs& args, const BlockMap& map, Stream stream) const try {
  fa2::map_blocks(*plan_, args, map, stream);
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
