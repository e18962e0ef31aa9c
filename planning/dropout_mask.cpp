// A thread for every eight pairs.
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <operation/operands/memory_ranges.h>
#include <operation/rules/violations.h>
#include <planning/attention_params.h>
#include <planning/dropout_mask.h>

#include <templates/attention/common/params.cuh>

namespace fa2 {
namespace {

std::int64_t in_blocks_of_16(std::int64_t rows) {
  return (rows + 15) / 16;
}

}  // namespace

KernelSpec dropout_mask_spec(const Arch& arch) {
  AttentionProblem any;
  any.head_dim = 64;
  any.dropout = true;
  const auto pass = static_cast<std::int32_t>(KernelPass::dropout_mask);
  return {traits_of({any.normalized(), {}}), default_config(80, pass), arch};
}

std::array<Operand, 2> dropout_mask_operands(const AttentionProblem& problem, const Dropout& dropout,
                                             const std::uint8_t* mask) {
  AttentionArgs args;
  args.dropout = dropout;
  const Operand all{.name = "mask",
                    .element = ElementType::byte,
                    .access = Access::write,
                    .data = mask,
                    .extents = {problem.batch, problem.heads_q, problem.seqlen_q, problem.seqlen_k}};
  return {all, operands_of(problem, args)[Role::dropout_state]};
}

Violations violations_of_dropout_mask(const AttentionProblem& problem, const Dropout& dropout,
                                      const std::uint8_t* mask) {
  Violations found;
  if (!problem.dropout) found.push_back({"dropout", "false", "must be true: there is no mask without"});
  check_dropout(found, problem, dropout);
  if (reinterpret_cast<std::uintptr_t>(dropout.state) % sizeof *dropout.state != 0)
    found.push_back(
        {"dropout.state", fmt::format("{}", fmt::ptr(dropout.state)), "must be a multiple of 8 bytes"});
  if (mask == nullptr) found.push_back({"mask", "null", "must point to the tensor: it has elements"});
  return found;
}

void launch_dropout_mask(const Kernel& kernel, const AttentionProblem& problem, const Dropout& dropout,
                         std::uint8_t* mask, Stream stream) {
  const KernelSpec spec = dropout_mask_spec({});
  AttentionArgs args;
  args.dropout = dropout;
  DropoutMaskParams params{};
  params.attention = constants_of(problem, spec.config);
  add_call(params.attention, problem, args);
  params.mask = mask;
  const std::int64_t heads = problem.batch * problem.heads_q;
  const std::int64_t calls =
      heads * in_blocks_of_16(problem.seqlen_q) * 8 * in_blocks_of_16(problem.seqlen_k) * 4;
  const std::int64_t threads = spec.config.warps * 32;
  const LaunchShape shape{static_cast<std::uint32_t>((calls + threads - 1) / threads)};
  const auto operands = dropout_mask_operands(problem, dropout, mask);
  const OperandMemory memory(operands);
  kernel.launch(shape, &params, sizeof params, stream, &memory);
}

}  // namespace fa2
