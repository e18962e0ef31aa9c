// Context::dropout_mask(): validates, then launches a plan of one call.
#include <api/boundary.h>
#include <api/context.h>
#include <operation/rules/validate.h>
#include <planning/dropout_mask.h>
#include <runtime/device.h>
#include <runtime/graph.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa2 {

void Context::dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                           Stream stream) try {
  const DropoutMaskArgs args{dropout, mask};
  Violations found = violations_of(problem);
  const bool is_empty = problem.batch == 0 || problem.seqlen_q == 0 || problem.seqlen_k == 0;
  if (!is_empty) std::ranges::move(violations_of_dropout_mask(problem, args), std::back_inserter(found));
  if (!found.empty()) throw InvalidRequest(std::move(found));
  if (is_empty) return;
  const Device& gpu = device(current_device());
  const ScopedContext current(gpu.ordinal);
  const auto operands = dropout_mask_operands(problem, args);
  require_usable({}, operands, gpu.ordinal);
  const LoadedKernel loaded =
      impl_->load_kernel_of(Operation::dropout_mask, dropout_mask_kernel(), gpu, stream);
  launch(plan_dropout_mask(problem.normalized(), loaded.kernel), args, operands, nullptr, stream);
} catch (...) {
  rethrow_as_error();
}

void dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                  Stream stream) {
  Context::default_context().dropout_mask(problem, dropout, mask, stream);
}

}  // namespace fa2
