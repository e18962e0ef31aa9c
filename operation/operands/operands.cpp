// Lists the tensors of a call by the rows of its arguments.
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <operation/operands/operands.h>
#include <operation/operands/workspace.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace fa2 {
namespace {

/// Sizes of a problem, in the order of kBackwardTable.sizes.
using Sizes = std::array<std::int64_t, kMostSizes>;

Sizes sizes_of(const AttentionProblem& p) {
  Sizes sizes{};
  std::size_t next = 0;
  each_index<AttentionProblem>([&](auto index) {
    if constexpr (kCStruct<AttentionProblem>.members[index].is_size)
      sizes[next++] = p.*row_at<index>(kRowsOf<AttentionProblem>).member;
  });
  constexpr auto at = [](const char* name) {
    return static_cast<std::size_t>(kBackwardTable.size_index(name));
  };
  if (p.heads_kv == 0) sizes[at("heads_kv")] = p.heads_q;
  if (p.head_dim_v == 0) sizes[at("head_dim_v")] = p.head_dim;
  sizes[at("max_pages")] = pages_of_sequence(p);
  return sizes;
}

/// Returns whether the problem uses tensor `kIndex` of kBackwardTable.
template <std::size_t kIndex>
bool takes(const AttentionProblem& p) {
  constexpr const Tensor& tensor = kBackwardTable.tensors[kIndex];
  if constexpr (tensor.is_elsewhere) {
    return is_used<BackwardArgs, tensor.row>(p);
  } else {
    return is_used<AttentionArgs, tensor.row>(p);
  }
}

/// Sets the extents by one form of the tensor's shape, in the order (batch, head, row, other).
template <std::size_t kIndex, std::size_t kForm>
void set_extents(Operand& operand, const Sizes& sizes) {
  constexpr const Form& form = kBackwardTable.tensors[kIndex].forms[kForm];
  operand.extents = {1, 1, 1, 1};
  for (std::size_t i = 0; i < static_cast<std::size_t>(form.rank); ++i) {
    const Extent extent = form.extents[i];
    const std::int64_t size = extent.size < 0 ? 0 : sizes[static_cast<std::size_t>(extent.size)];
    std::size_t dimension = 3;
    for (const Axis axis : {Axis::entry, Axis::head, Axis::row})
      if (form.axes[static_cast<std::size_t>(axis)] == static_cast<std::int16_t>(i))
        dimension = static_cast<std::size_t>(axis) - static_cast<std::size_t>(Axis::entry);
    operand.extents[dimension] = (size + extent.plus) / extent.over;
  }
}

/// Sets the extents by the first form, from `kForm` on, whose condition holds. "if TENSOR" holds if the problem uses that tensor.
template <std::size_t kIndex, std::size_t kForm = 0>
void choose_extents(Operand& operand, const AttentionProblem& p, const Sizes& sizes, bool is_second_form) {
  constexpr const Tensor& tensor = kBackwardTable.tensors[kIndex];
  constexpr std::int16_t condition = tensor.forms[kForm].if_given;
  if constexpr (kForm + 1 == tensor.form_count) {
    set_extents<kIndex, kForm>(operand, sizes);
  } else if constexpr (condition < 0) {
    is_second_form ? set_extents<kIndex, kForm + 1>(operand, sizes)
                   : set_extents<kIndex, kForm>(operand, sizes);
  } else {
    takes<condition>(p) ? set_extents<kIndex, kForm>(operand, sizes)
                        : choose_extents<kIndex, kForm + 1>(operand, p, sizes, is_second_form);
  }
}

/// Replaces a matrix with gaps between its rows by one range, from the first row's first entry to the last row's last one.
void join_rows(Operand& operand, std::int64_t stride) {
  const std::int64_t rows = operand.extents[0], entries = operand.extents[3];
  operand.extents = {1, 1, 1, rows > 0 && entries > 0 ? (rows - 1) * stride + entries : 0};
}

template <std::size_t kIndex, class Args>
Operand operand_of(const AttentionProblem& p, const Sizes& sizes, const Args& args) {
  constexpr const Tensor& tensor = kBackwardTable.tensors[kIndex];
  constexpr const auto& row = row_at<tensor.row>(kRowsOf<Args>);
  Operand operand{.name = tensor.text.name,
                  .element = element_of<Args, tensor.row>(p),
                  .access = kCStruct<Args>.members[tensor.row].is_const ? Access::read : Access::write,
                  .optional = tensor.text.is_optional,
                  .strided = tensor.layout == StrideRule::strided,
                  .has_rows = tensor.layout == StrideRule::strided && tensor.forms[0].ends_in_column,
                  .data = member_of(args, row)};
  if (operand.element == ElementType::e4m3)
    operand.alignment = 16;  // kernels read rows in pieces of 16 bytes
  bool is_second_form = false;
  if constexpr (*tensor.text.second_form != 0)
    is_second_form = member_of(args, row_at<row_index<Args>(tensor.text.second_form)>(kRowsOf<Args>));
  choose_extents<kIndex>(operand, p, sizes, is_second_form);
  if constexpr (tensor.layout == StrideRule::strided) {
    const TensorStrides& strides = args.*row.beside;
    operand.strides = {strides.batch, strides.head, strides.row};
  } else if constexpr (tensor.layout == StrideRule::rows) {
    join_rows(operand, member_of(args, row_at<row_index<Args>(tensor.text.stride)>(kRowsOf<Args>)));
  }
  if constexpr (std::string_view(tensor.text.name) == "k")
    operand.extents[3] = key_value_format(p).key_elements();
  if (!takes<kIndex>(p)) operand.extents[0] = 0;
  return operand;
}

/// Returns the workspace as an operand. It is optional, because the Context can provide it.
Operand workspace_of(void* data, std::size_t bytes) {
  Operand operand = optional_operand("workspace", Access::read_write, data, ElementType::u8,
                                     {1, 1, 1, static_cast<std::int64_t>(bytes)});
  operand.alignment = kWorkspaceAlignment;
  return operand;
}

}  // namespace

Operand strided_operand(std::string_view name, Access access, const void* data, ElementType element,
                        const std::array<std::int64_t, 4>& extents, const TensorStrides& strides) {
  return {.name = name,
          .element = element,
          .access = access,
          .strided = true,
          .has_rows = true,
          .data = data,
          .extents = extents,
          .strides = {strides.batch, strides.head, strides.row}};
}

Operand optional_operand(std::string_view name, Access access, const void* data, ElementType element,
                         const std::array<std::int64_t, 4>& extents) {
  return {
      .name = name, .element = element, .access = access, .optional = true, .data = data, .extents = extents};
}

Operands operands_of(const AttentionProblem& p, const AttentionArgs& args, std::size_t workspace_bytes) {
  const Sizes sizes = sizes_of(p);
  Operands operands = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return Operands{{operand_of<i>(p, sizes, args)..., workspace_of(args.workspace, workspace_bytes)}};
  }
  (std::make_index_sequence<kForwardTensors>());
  // Kernels raise the largest logits, which begin as -infinity.
  operands.list[static_cast<std::size_t>(Role::max_logits)].access = Access::read_write;
  operands.list[static_cast<std::size_t>(Role::query_pieces)].optional = !p.varlen;
  return operands;
}

BackwardOperands backward_operands_of(const AttentionProblem& p, const BackwardArgs& args,
                                      std::size_t workspace_bytes) {
  const Operands forward = operands_of(p, args.forward, workspace_bytes);
  const Sizes sizes = sizes_of(p);
  BackwardOperands operands;
  std::ranges::copy(forward, operands.list.begin());
  const auto at = [&](Role role) -> Operand& { return operands.list[static_cast<std::size_t>(role)]; };
  at(Role::workspace).data = args.workspace;
  at(Role::out).access = at(Role::lse).access = Access::read;
  at(Role::lse).optional = false;
  at(Role::max_logits).extents[0] = 0;  // it is ignored
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((operands.list[kOperandCount + i] = operand_of<kForwardTensors + i>(p, sizes, args)), ...);
  }
  (std::make_index_sequence<kBackwardOperandCount - kOperandCount>());
  return operands;
}

std::size_t size_in_bytes(const Operand& operand) {
  std::size_t bytes = static_cast<std::size_t>(bytes_of(operand.element));
  for (const std::int64_t extent : operand.extents) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

}  // namespace fa2
