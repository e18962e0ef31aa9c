// The tensors of one call, as a list.
#pragma once

#include <fa2/args.h>
#include <fa2/backward.h>
#include <fa2/problem.h>
#include <operation/operands/rows.h>
#include <runtime/element_type.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace fa2 {

/// How many of the variants' numbers are tensors.
constexpr std::size_t variant_operand_count() {
  std::size_t count = 0;
  const AttentionArgs none;
  visit_numbers([&](const char*, const char*, bool, const auto& value,
                    const auto&...) { count += std::is_pointer_v<std::remove_cvref_t<decltype(value)>>; },
                AttentionProblem{}, none);
  return count;
}

/// What an operand is to attention. From `variants` on: those of visit_numbers(), in its order; after them
/// those that the backward alone has.
enum class Role : std::uint8_t {
  q,
  k,
  v,
  o,
  lse,
  workspace,
  cu_seqlens_q,
  cu_seqlens_k,
  seqused_q,
  seqused_k,
  page_table,
  dropout_state,
  variants,
  d_o = variants + variant_operand_count(),
  d_lse,
  dq,
  dk,
  dv,
  d_sinks
};

/// Of a forward's call, and of a backward's.
inline constexpr std::size_t kOperandCount = static_cast<std::size_t>(Role::d_o);
inline constexpr std::size_t kBackwardOperandCount = static_cast<std::size_t>(Role::d_sinks) + 1;

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
