// A thread for eight columns of a row.
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <operation/attention_params.h>
#include <operation/memory_ranges.h>
#include <operation/merge.h>
#include <operation/validate.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <templates/attention/merge_params.cuh>

namespace fa2 {
namespace {

constexpr std::int64_t kMostParts = 1 << 16, kMostRows = std::numeric_limits<std::int32_t>::max();

ElementType element_of(DType dtype, bool is_float32) {
  return is_float32 ? ElementType::f32 : dtype == DType::f16 ? ElementType::f16 : ElementType::bf16;
}

Operand strided(const char* name, ElementType element, const void* data, const MergeProblem& p,
                std::int64_t columns, const TensorStrides& strides) {
  return {.name = name,
          .element = element,
          .strided = true,
          .data = data,
          .extents = {p.batch, p.heads, p.seqlen, columns},
          .strides = {strides.batch, strides.head, strides.row}};
}

const void* advanced(const void* data, std::int64_t elements, ElementType element) {
  const auto bytes = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(bytes_of(element));
  return data == nullptr ? nullptr
                         : reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) + bytes);
}

MergeParams params_of(const MergeProblem& p, const MergeArgs& args) {
  MergeParams params{};
  params.parts = args.parts;
  params.lse_parts = args.lse_parts;
  params.o = args.o;
  params.lse = args.lse;
  params.part_stride = args.part_stride;
  params.lse_part_stride = args.lse_part_stride;
  params.parts_strides = ref(args.parts_strides);
  params.lse_strides = ref(args.lse_parts_strides);
  params.o_strides = ref(args.o_strides);
  params.rows = p.batch * p.heads * p.seqlen;
  params.part_count = static_cast<int>(p.parts);
  params.heads = static_cast<int>(p.heads);
  params.seqlen = static_cast<int>(p.seqlen);
  params.float32_parts = p.float32_parts;
  params.float32_output = p.float32_output;
  const float infinity = std::numeric_limits<float>::infinity();
  params.empty_row_lse = args.empty_row_lse == EmptyRowLse::positive_infinity ? infinity : -infinity;
  return params;
}

}  // namespace

bool is_empty(const MergeProblem& problem) {
  return problem.batch == 0 || problem.heads == 0 || problem.seqlen == 0;
}

Violations violations_of(const MergeProblem& p) {
  Violations found;
  const auto expect = [&](bool holds, const char* name, std::int64_t value, const char* rule) {
    if (!holds) found.push_back({name, fmt::format("{}", value), rule});
  };
  check_enum(found, "dtype", p.dtype);
  expect(p.head_dim >= 8 && p.head_dim <= 256 && p.head_dim % 8 == 0, "head_dim", p.head_dim,
         "must be a multiple of 8 in 8..256");
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

std::vector<Operand> operands_of(const MergeProblem& p, const MergeArgs& args) {
  const ElementType element = element_of(p.dtype, p.float32_parts);
  std::vector<Operand> operands;
  for (std::int64_t part = 0; part < p.parts; ++part)
    operands.push_back(strided("parts", element, advanced(args.parts, part * args.part_stride, element), p,
                               p.head_dim, args.parts_strides));
  operands.push_back(
      strided("o", element_of(p.dtype, p.float32_output), args.o, p, p.head_dim, args.o_strides));
  operands.back().access = Access::write;
  for (std::int64_t part = 0; part < p.parts; ++part)
    operands.push_back(strided("lse_parts", ElementType::f32,
                               advanced(args.lse_parts, part * args.lse_part_stride, ElementType::f32), p, 1,
                               args.lse_parts_strides));
  operands.push_back({.name = "lse",
                      .element = ElementType::f32,
                      .access = Access::write,
                      .optional = true,
                      .data = args.lse,
                      .extents = {p.batch, p.heads, p.seqlen, 1}});
  return operands;
}

KernelSpec merge_spec(const MergeProblem& p, OperandList operands, const Arch& arch) {
  AttentionProblem any;
  any.dtype = p.dtype;
  any.head_dim = p.head_dim;
  const std::size_t rows =
      static_cast<std::size_t>(p.parts) + 1;  // of parts and O; LSE has no rows to speak of
  PlanOptions options = options_kept_by(any, OperandList(operands.data(), rows));
  if (options.row_alignment == RowAlignment::bytes16_any_order) options.row_alignment = RowAlignment::bytes16;
  return {traits_of({any.normalized(), options}),
          default_config(80, static_cast<std::int32_t>(KernelPass::merge)), arch};
}

void launch_merge(const Kernel& kernel, const MergeProblem& problem, const MergeArgs& args,
                  OperandList operands, Stream stream) {
  const MergeParams params = params_of(problem, args);
  const std::int64_t block = default_config(80, static_cast<std::int32_t>(KernelPass::merge)).warps * 32;
  const std::int64_t threads = params.rows * (problem.head_dim / 8);
  const LaunchShape shape{static_cast<std::uint32_t>((threads + block - 1) / block)};
  const OperandMemory memory(operands);
  kernel.launch(shape, &params, sizeof params, stream, &memory);
}

}  // namespace fa2
