// The tensors of one call, as a list.
#pragma once

#include <core/element_type.h>
#include <fa2/args.h>
#include <fa2/backward.h>
#include <fa2/problem.h>
#include <operation/operands/tensor_tables.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace fa2 {

inline constexpr std::size_t kForwardTensors = kAttentionTable.tensors.size();

/// Returns the index, among a call's operands, of the tensor whose member has this name. Does not compile if there is none.
constexpr std::uint8_t operand_index(std::string_view name) {
  const std::int16_t index = kBackwardTable.tensor_index(name);
  if (index < 0) throw "no tensor has this name";
  const auto tensor = static_cast<std::size_t>(index);
  return static_cast<std::uint8_t>(tensor < kForwardTensors ? tensor : tensor + 1);
}

/// The operands of attention that code refers to by name. The value is the index in the list: first the forward's tensors in the
/// order of their rows, then the workspace, then the tensors of the backward alone. The other operands need no enumerator.
enum class Role : std::uint8_t {
  q = operand_index("q"),
  k = operand_index("k"),
  v = operand_index("v"),
  out = operand_index("out"),
  lse = operand_index("lse"),
  max_logits = operand_index("max_logits"),
  dropout_state = operand_index("dropout.state"),
  query_pieces = operand_index("query_pieces.table"),
  cu_seqlens_q = operand_index("cu_seqlens_q"),
  cu_seqlens_k = operand_index("cu_seqlens_k"),
  seqused_q = operand_index("seqused_q"),
  seqused_k = operand_index("seqused_k"),
  page_table = operand_index("page_table"),
  workspace = kForwardTensors,
  d_out = operand_index("d_out"),
  d_lse = operand_index("d_lse"),
  dq = operand_index("dq"),
  dk = operand_index("dk"),
  dv = operand_index("dv"),
  d_sinks = operand_index("d_sinks")
};

/// The number of operands of a forward call, and of a backward call.
inline constexpr std::size_t kOperandCount = kForwardTensors + 1;
inline constexpr std::size_t kBackwardOperandCount = kBackwardTable.tensors.size() + 1;

/// Returns whether an operand holds a variant's numbers per head, such as ALiBi slopes: those that visit_numbers() visits.
constexpr bool has_numbers(Role role) {
  const auto index = static_cast<std::size_t>(role);
  if (index >= kForwardTensors) return false;
  const Tensor& tensor = kAttentionTable.tensors[index];
  return !tensor.has_dtype && tensor.element == ElementType::f32 && !tensor.is_written &&
         tensor.layout != StrideRule::strided;
}

/// A tensor of up to four dimensions, whose last one is contiguous. Q, K, V and O are (batch, head, row, column); packed sequences
/// are a batch of one.
struct Operand {
  std::string_view name;  ///< name of the member that points to it: "k_new"
  ElementType element = ElementType::f16;
  Access access = Access::read;
  bool optional = false;  ///< whether it may be null; kernels do not touch it then
  bool strided = false;   ///< whether the caller gives strides; else contiguous
  bool has_rows = false;  ///< whether RowAlignment applies: only if strided
  int alignment = 0;      ///< required alignment of the address; bytes; 0: that of one element
  const void* data = nullptr;
  std::array<std::int64_t, 4> extents{};  ///< elements
  std::array<std::int64_t, 3>
      strides{};  ///< strides of all dimensions but the last; elements; only if strided

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
  int least_alignment() const { return alignment != 0 ? alignment : bytes_of(element); }
  bool is_written() const { return access != Access::read; }
  /// Returns whether no kernel touches it, because it has no element or is optional and null.
  bool is_absent() const {
    return extents[0] == 0 || extents[1] == 0 || extents[2] == 0 || extents[3] == 0 ||
           (optional && data == nullptr);
  }
};

/// The operands of a call, indexed by role.
class OperandList : public std::span<const Operand> {
 public:
  using std::span<const Operand>::span;
  const Operand& operator[](Role role) const { return data()[static_cast<std::size_t>(role)]; }
};

/// An OperandList with its storage.
template <std::size_t kCount>
struct MadeOperands {
  std::array<Operand, kCount> list;

  const Operand& operator[](Role role) const { return list[static_cast<std::size_t>(role)]; }
  /// Sets the workspace's size, for callers that make the list before they have the plan.
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

/// Returns the element type that the tensor of row `kRow` has for this problem.
template <class Args, std::size_t kRow, class Problem>
constexpr ElementType element_of(const Problem& problem) {
  constexpr const Member& member = kCStruct<Args>.members[kRow];
  if constexpr (!member.has_dtype) {
    return member.element;
  } else if constexpr (*member.text.other_type != 0) {
    constexpr std::size_t field = row_index<Problem>(member.text.type_field);
    const auto& type = member_of(problem, row_at<field>(kRowsOf<Problem>));
    if constexpr (std::is_same_v<decltype(type), const KvType&>) {
      return element_of(type, problem.dtype);
    } else {
      return is_set(type) ? element_type(member.text.other_type) : element_of(problem.dtype);
    }
  } else {
    return element_of(problem.dtype);
  }
}

/// Returns a (batch, head, row, column) operand with these strides.
Operand strided_operand(std::string_view name, Access access, const void* data, ElementType element,
                        const std::array<std::int64_t, 4>& extents, const TensorStrides& strides);

/// Returns a contiguous operand that may be null.
Operand optional_operand(std::string_view name, Access access, const void* data, ElementType element,
                         const std::array<std::int64_t, 4>& extents);

/// Returns the operands of a call, for validation, residency, overlaps, the interpreter, a search's buffers and tensor maps.
/// Allocates nothing, because every call makes the list. `problem` need be neither normalized nor valid. `workspace_bytes`: the
/// plan's.
Operands operands_of(const AttentionProblem& problem, const AttentionArgs& args,
                     std::size_t workspace_bytes = 0);

/// Like operands_of(), for a backward. O and LSE are inputs.
BackwardOperands backward_operands_of(const AttentionProblem& problem, const BackwardArgs& args,
                                      std::size_t workspace_bytes = 0);

/// Calls gradient(index, is_wanted) for each gradient: the index of its row in BackwardArgs, as a std::integral_constant, and the
/// flag of `gradients` that has its name.
template <class Wanted, class Gradient>
constexpr void each_gradient(Wanted& gradients, const Gradient& gradient) {
  each_index<Gradients>([&](auto index) {
    constexpr const auto& row = row_at<index>(kRowsOf<Gradients>);
    if constexpr (kCStruct<Gradients>.members[index].is_flag)
      gradient(std::integral_constant<std::size_t, row_index<BackwardArgs>(row.text.name)>(),
               gradients.*row.member);
  });
}

/// Returns the gradients whose pointers are not null.
inline Gradients given_gradients(const BackwardArgs& args) {
  Gradients given{.determinism = args.determinism};
  each_gradient(given, [&](auto index, bool& is_wanted) {
    is_wanted = args.*row_at<index>(kRowsOf<BackwardArgs>).member != nullptr;
  });
  return given;
}

/// Like each_gradient(), for those that are operands: the gradients of captures are none.
template <class Gradient>
constexpr void each_operand_gradient(const Gradients& gradients, const Gradient& gradient) {
  each_gradient(gradients, [&](auto index, bool is_wanted) {
    if constexpr (kCStruct<BackwardArgs>.members[index].type != CType::gradients) gradient(index, is_wanted);
  });
}

/// Returns whether any gradient is wanted.
inline bool is_any_wanted(const Gradients& gradients) {
  bool is_any = false;
  each_gradient(gradients, [&](auto, bool is_wanted) { is_any |= is_wanted; });
  return is_any;
}

/// Returns the size of the elements, without gaps between rows. The operand must be of a valid problem.
std::size_t size_in_bytes(const Operand& operand);

}  // namespace fa2
