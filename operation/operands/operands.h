// The tensors of one call, as a list.
#pragma once

#include <fa2/args.h>
#include <fa2/backward.h>
#include <fa2/problem.h>
#include <operation/operands/tensor_tables.h>
#include <runtime/element_type.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace fa2 {

inline constexpr std::size_t kForwardTensors = kAttentionTable.tensors.size();

/// The index among a call's operands of the tensor whose member has this name. Does not compile if there is none.
constexpr std::uint8_t operand_index(std::string_view name) {
  const std::int8_t index = kBackwardTable.tensor_index(name);
  if (index < 0) throw "no tensor has this name";
  const auto tensor = static_cast<std::size_t>(index);
  return static_cast<std::uint8_t>(tensor < kForwardTensors ? tensor : tensor + 1);
}

/// What an operand is to attention: the forward's tensors in the order of their rows, the workspace, and what the backward alone
/// has. Operands that no code names need no enumerator.
enum class Role : std::uint8_t {
  q = operand_index("q"),
  k = operand_index("k"),
  v = operand_index("v"),
  o = operand_index("o"),
  lse = operand_index("lse"),
  dropout_state = operand_index("dropout.state"),
  cu_seqlens_q = operand_index("cu_seqlens_q"),
  cu_seqlens_k = operand_index("cu_seqlens_k"),
  seqused_q = operand_index("seqused_q"),
  seqused_k = operand_index("seqused_k"),
  page_table = operand_index("page_table"),
  workspace = kForwardTensors,
  d_o = operand_index("d_o"),
  d_lse = operand_index("d_lse"),
  dq = operand_index("dq"),
  dk = operand_index("dk"),
  dv = operand_index("dv"),
  d_sinks = operand_index("d_sinks")
};

/// Operands of a forward call, and of a backward call.
inline constexpr std::size_t kOperandCount = kForwardTensors + 1;
inline constexpr std::size_t kBackwardOperandCount = kBackwardTable.tensors.size() + 1;

/// Whether an operand has a variant's numbers, one per head: those that visit_numbers() visits.
constexpr bool has_numbers(Role role) {
  const auto index = static_cast<std::size_t>(role);
  if (index >= kForwardTensors) return false;
  const Tensor& tensor = kAttentionTable.tensors[index];
  return tensor.element == Element::f32 && !tensor.is_written;
}

/// A tensor of up to four dimensions, of which the last is contiguous. Q, K, V and O: (batch, head, row,
/// column); packed sequences are a batch of one.
struct Operand {
  std::string_view name;  ///< of its pointer in AttentionArgs
  ElementType element = ElementType::f16;
  Access access = Access::read;
  bool optional = false;  ///< may be null, and nobody touches it then
  bool strided = false;   ///< the caller gives strides, and RowAlignment speaks of its rows; else contiguous
  int alignment = 0;      ///< bytes that its address is a multiple of; 0: those of an element
  const void* data = nullptr;
  std::array<std::int64_t, 4> extents{};  ///< elements
  std::array<std::int64_t, 3> strides{};  ///< elements, of all dimensions but the last; only where strided

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
  int least_alignment() const { return alignment != 0 ? alignment : bytes_of(element); }
  bool is_written() const { return access != Access::read; }
  /// Whether no kernel touches it, wherever it points.
  bool is_absent() const {
    return extents[0] == 0 || extents[1] == 0 || extents[2] == 0 || extents[3] == 0 ||
           (optional && data == nullptr);
  }
};

/// A call's operands, one a role, in the order of the roles.
class OperandList : public std::span<const Operand> {
 public:
  using std::span<const Operand>::span;
  const Operand& operator[](Role role) const { return data()[static_cast<std::size_t>(role)]; }
};

/// Those that somebody made.
template <std::size_t kCount>
struct MadeOperands {
  std::array<Operand, kCount> list;

  const Operand& operator[](Role role) const { return list[static_cast<std::size_t>(role)]; }
  /// Once the plan is known.
  void set_workspace_bytes(std::size_t bytes) {
    list[static_cast<std::size_t>(Role::workspace)].extents[3] = static_cast<std::int64_t>(bytes);
  }
  const Operand* data() const { return list.data(); }
  std::size_t size() const { return kCount; }
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }
};
using Operands = MadeOperands<kOperandCount>;
using BackwardOperands = MadeOperands<kBackwardOperandCount>;

/// Of tensors of this dtype.
constexpr ElementType element_of(DType dtype) {
  return dtype == DType::f16 ? ElementType::f16 : ElementType::bf16;
}

/// A (batch, head, row, column) tensor with strides of its own.
Operand strided_operand(std::string_view name, Access access, const void* data, ElementType element,
                        const std::array<std::int64_t, 4>& extents, const TensorStrides& strides);

/// A contiguous tensor that may be left out.
Operand optional_operand(std::string_view name, Access access, const void* data, ElementType element,
                         const std::array<std::int64_t, 4>& extents);

/// All that is said of an operand: validation, residency, overlaps, the interpreter, a search's buffers and
/// tensor maps ask here. Nothing is allocated: every call makes the list. `problem` need not be normalized, or
/// valid. `workspace_bytes`: of the plan.
Operands operands_of(const AttentionProblem& problem, const AttentionArgs& args,
                     std::size_t workspace_bytes = 0);

/// The same of a backward, whose forward's results are inputs.
BackwardOperands backward_operands_of(const AttentionProblem& problem, const BackwardArgs& args,
                                      std::size_t workspace_bytes = 0);

/// Those that the arguments point to.
inline Gradients given_gradients(const BackwardArgs& args) {
  return {.dq = args.dq != nullptr,
          .dk = args.dk != nullptr,
          .dv = args.dv != nullptr,
          .d_sinks = args.d_sinks != nullptr,
          .determinism = args.determinism};
}

/// Of the elements alone, for an operand of a valid problem.
std::size_t size_in_bytes(const Operand& operand);

}  // namespace fa2
