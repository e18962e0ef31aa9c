// The rules, the operands and the kernel of merge().
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <operation/rules/validate.h>
#include <planning/merge.h>
#include <planning/row_kernels.h>
#include <planning/step_request.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

namespace fa2 {
namespace {

constexpr std::int64_t kMostParts = 1 << 16, kMostRows = std::numeric_limits<std::int32_t>::max();

/// Returns the beginning of a part. Strides may be any number, so that nothing is signed here.
const void* part_of(const void* data, std::int64_t part, std::int64_t stride, ElementType element) {
  const auto bytes = static_cast<std::uint64_t>(part) * static_cast<std::uint64_t>(stride) *
                     static_cast<std::uint64_t>(bytes_of(element));
  return data == nullptr ? nullptr
                         : reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) + bytes);
}

}  // namespace

bool operator==(const MergeProblem&, const MergeProblem&) = default;

bool is_empty(const MergeProblem& problem) {
  return problem.batch == 0 || problem.heads == 0 || problem.seqlen == 0;
}

Violations violations_of(const MergeProblem& p) {
  Violations found;
  const auto expect = [&](bool holds, const char* name, std::int64_t value, const char* rule) {
    if (!holds) found.push_back({name, fmt::format("{}", value), rule});
  };
  check_enums(found, p);
  check_head_dim(found, "head_dim", p.head_dim, kernels::merge.head_dims);
  expect(p.parts >= 1 && p.parts <= kMostParts, "parts", p.parts, "must be 1..65536");
  const auto is_size = [](std::int64_t n) { return n >= 0 && n <= kMostRows; };
  expect(is_size(p.batch), "batch", p.batch, "must be 0..2147483647");
  expect(is_size(p.heads), "heads", p.heads, "must be 0..2147483647");
  expect(is_size(p.seqlen), "seqlen", p.seqlen, "must be 0..2147483647");
  if (found.empty() && !is_empty(p) && p.batch > kMostRows / p.heads / p.seqlen) {
    found.push_back({"batch * heads * seqlen", fmt::format("{} * {} * {}", p.batch, p.heads, p.seqlen),
                     "must be at most 2147483647"});
  }
  return found;
}

Violations violations_of(const MergeArgs& args, OperandList operands) {
  Violations found = violations_of_operands(operands);
  check_enum(found, "empty_row_lse", args.empty_row_lse);
  return found;
}

Violations violations_of_call(const MergeProblem& p, const MergeArgs& args) {
  Violations found = violations_of(p);
  if (has_shapes(p) && p.parts <= kMostParts)
    std::ranges::move(violations_of(args, operands_of(p, args)), std::back_inserter(found));
  return found;
}

std::vector<Operand> operands_of(const MergeProblem& p, const MergeArgs& args) {
  const ElementType element = element_of<MergeArgs, row_index<MergeArgs>("parts")>(p),
                    merged = element_of<MergeArgs, row_index<MergeArgs>("out")>(p);
  const std::array<std::int64_t, 4> rows{p.batch, p.heads, p.seqlen, p.head_dim},
      statistics{p.batch, p.heads, p.seqlen, 1};
  std::vector<Operand> operands;
  for (std::int64_t part = 0; part < p.parts; ++part)
    operands.push_back(strided_operand("parts", Access::read,
                                       part_of(args.parts, part, args.part_stride, element), element, rows,
                                       args.parts_strides));
  operands.push_back(strided_operand("out", Access::write, args.out, merged, rows, args.out_strides));
  for (std::int64_t part = 0; part < p.parts; ++part)
    operands.push_back(strided_operand("lse_parts", Access::read,
                                       part_of(args.lse_parts, part, args.lse_part_stride, ElementType::f32),
                                       ElementType::f32, statistics, args.lse_parts_strides));
  operands.push_back(optional_operand("lse", Access::write, args.lse, ElementType::f32, statistics));
  return operands;
}

RowKernel merge_kernel_of(const MergeProblem& p, OperandList operands) {
  AttentionProblem any;
  any.dtype = p.dtype;
  any.head_dim = p.head_dim;
  any.lse_base = p.lse_base;
  const std::size_t rows = static_cast<std::size_t>(p.parts) + 1;  // parts and O; LSE has one element per row
  return merge_kernel({any, options_kept_by(any, OperandList(operands.data(), rows))});
}

Plan plan_merge(const MergeProblem& problem, std::shared_ptr<const Kernel> kernel) {
  Plan plan;
  plan.add(kernels::merge.make_step(
      {.problem = problem, .config = kernels::merge.default_config, .kernel = std::move(kernel)}));
  return plan;
}

}  // namespace fa2
