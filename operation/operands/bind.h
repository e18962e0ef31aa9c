// Turns tensors that have shapes into the sizes, pointers and strides of a call, and lists everything wrong with them.
#pragma once

#include <fa2/c_tensors.h>
#include <operation/operands/tensor_table.h>
#include <operation/rules/violations.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fa2 {

/// The tensors of one call, read by a table: in the order of its rows, the first shape that holds a size defines it, and later
/// shapes are compared with it. Allocates only if something is wrong.
class Binding {
 public:
  /// `tensors` are in the table's order. A tensor that is null, or missing at the end, is not given.
  Binding(const TensorTable& table, std::span<const fa2_array* const> tensors);

  /// Returns everything that is wrong. The caller may add violations of its own rules.
  Violations& found() { return found_; }

  bool is_given(std::size_t tensor) const { return (given_ >> tensor & 1) != 0; }
  const fa2_array& tensor(std::size_t index) const { return *tensors_[index]; }
  bool is_known(std::size_t size) const { return (known_ >> size & 1) != 0; }

  fa2_placement placement() const;

  /// Writes sizes, flags and element types to the C struct `problem`, and tensors to `args` or, for those with is_elsewhere, to `more`. A tensor
  /// that is not given, or whose used_if is a size of 0, becomes null. found() must be empty, and kTable must be this binding's.
  template <const TensorTable& kTable>
  void fill(void* problem, void* args, void* more = nullptr) const;

 private:
  void check_given();
  void check_relations(std::size_t row);
  void check(std::size_t row);
  /// Checks device, dtype and flags.
  void check_kind(std::size_t row);
  void check_element(std::size_t row);
  void check_strides(std::size_t row, const Form& form);
  void check_sizes();
  /// Returns the form of the tensor's shape in this call; nullptr if none has the rank.
  const Form* form_of(const Tensor& tensor, std::int32_t rank) const;
  template <const TensorTable& kTable, std::size_t kIndex>
  void fill_tensor(void* problem, void* args) const;
  void keep_alignment(const fa2_array& tensor);

  void add(std::size_t row, std::string_view what, std::string value, std::string rule);
  void add_shape(std::size_t row, const Form* form);
  std::string text_of(const Form& form) const;

  const TensorTable& table_;
  std::span<const fa2_array* const> tensors_;
  std::uint32_t given_ = 0;
  std::uint32_t known_ = 0;
  std::int32_t device_ = FA2_OTHER_DEVICE;  ///< device of the first tensor that has one
  std::size_t device_row_ = 0;
  std::int32_t dtype_ = FA2_OTHER_DTYPE;  ///< of the first tensor of 16-bit elements
  std::size_t dtype_row_ = 0;
  std::uint64_t address_bits_ = 0;  ///< addresses and strides of strided tensors, or'ed together; bytes
  bool is_ascending_ = true;
  std::array<std::int64_t, kMostSizes> sizes_{};
  std::array<const Form*, kMostTensors> forms_;  ///< forms of the given tensors
  Violations found_;
};

/// Returns whether the dtype of a fa2_array is one that a problem may have.
constexpr bool is_half(std::int32_t dtype) {
  return dtype == FA2_F16 || dtype == FA2_BF16;
}

template <class Value>
void put(void* to, std::uint16_t offset, Value value) {
  std::memcpy(static_cast<char*>(to) + offset, &value, sizeof value);
}

/// Returns the distance between rows of a matrix; if there is only one row, its length.
inline std::int64_t row_stride(const fa2_array& tensor) {
  return tensor.shape[0] > 1 ? tensor.strides[0] : tensor.shape[1];
}

// Unrolls its loops over the table, so that each field is one store.
template <const TensorTable& kTable>
void Binding::fill(void* problem, void* args, void* more) const {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    const auto fill_size = [&](const Size& size, std::int64_t value) {
      if (size.field == kNowhere) return;
      size.bytes == 4 ? put(problem, size.field, static_cast<std::int32_t>(value))
                      : put(problem, size.field, value);
    };
    (fill_size(kTable.sizes[i], sizes_[i]), ...);
  }
  (std::make_index_sequence<kTable.sizes.size()>());
  if constexpr (kTable.dtype != kNowhere)
    put(problem, kTable.dtype, dtype_ == FA2_OTHER_DTYPE ? std::int32_t{FA2_F16} : dtype_);
  for (const TensorFlag& flag : kTable.flags)
    put(problem, flag.field, std::int32_t{(given_ & flag.tensors) != 0});
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (fill_tensor<kTable, i>(problem, kTable.tensors[i].is_elsewhere ? more : args), ...);
  }
  (std::make_index_sequence<kTable.tensors.size()>());
}

template <const TensorTable& kTable, std::size_t kIndex>
void Binding::fill_tensor(void* problem, void* args) const {
  constexpr const Tensor& row = kTable.tensors[kIndex];
  if constexpr (row.type_field != kNowhere) {
    if (row.like < 0 || !is_given(static_cast<std::size_t>(row.like)))
      put(problem, row.type_field, std::int32_t{is_given(kIndex) && !is_half(tensors_[kIndex]->dtype)});
  }
  if (row.field == kNowhere) return;
  constexpr std::int16_t needed = kTable.size_index(row.text.used_if);
  const bool given = is_given(kIndex) && (needed < 0 || sizes_[needed < 0 ? 0 : needed] > 0);
  const fa2_array* const t = given ? tensors_[kIndex] : nullptr;
  if constexpr (row.second_form != kNowhere)
    put(args, row.second_form, std::int32_t{given && forms_[kIndex] == &kTable.tensors[kIndex].forms[1]});
  put(args, row.field, given ? t->data : nullptr);
  if constexpr (row.layout == StrideRule::strided) {
    if (!given) return;
    const auto stride_of = [&](Axis axis) {
      const std::int16_t at = forms_[kIndex]->axes[static_cast<std::size_t>(axis)];
      return at < 0 ? std::int64_t{0} : t->strides[at];
    };
    put(args, row.field,
        fa2_tensor{t->data, {stride_of(Axis::entry), stride_of(Axis::head), stride_of(Axis::row)}});
    if constexpr (row.stride != kNowhere) put(args, row.stride, stride_of(Axis::part));
  } else if constexpr (row.stride != kNowhere) {
    put(args, row.stride, given ? row_stride(*t) : 0);
  }
}

}  // namespace fa2
