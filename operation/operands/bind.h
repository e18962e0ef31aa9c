// Tensors that have shapes, into the sizes, pointers and strides of a call. All that is wrong with them is listed.
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

/// Reads the tensors of one call by a table: each row's sizes that are not known yet are solved, all else is compared.
/// Nothing is allocated unless something is wrong.
class Binding {
 public:
  /// `tensors`: in the table's order; null, or missing at the end, is not given.
  Binding(const TensorTable& table, std::span<const fa2_array* const> tensors);

  /// Everything that is wrong; rules beside the table's may be added.
  Violations& found() { return found_; }

  bool is_given(std::size_t tensor) const { return (given_ >> tensor & 1) != 0; }
  const fa2_array& tensor(std::size_t index) const { return *tensors_[index]; }
  bool is_float32(std::size_t index) const { return is_given(index) && tensor(index).dtype == FA2_FLOAT32; }
  bool is_known(std::size_t size) const { return (known_ >> size & 1) != 0; }

  /// FA2_F16 or FA2_BF16, of the first tensor that has one of them.
  std::int32_t dtype() const { return dtype_ == FA2_OTHER_DTYPE ? FA2_F16 : dtype_; }
  fa2_placement placement() const;

  /// found() must be empty, and kTable this binding's. A tensor that is used if a size is above 0 is not given to a call of size 0. Writes sizes and flags to `problem`, and tensors to `args` or `more`; 0 for
  /// all that is not given.
  template <const TensorTable& kTable>
  void fill(void* problem, void* args, void* more = nullptr) const;

 private:
  void check_given();
  void check_relations(std::size_t row);
  void check(std::size_t row);
  /// Device, dtype and flags.
  void check_kind(std::size_t row);
  void check_element(std::size_t row);
  void check_strides(std::size_t row, const Form& form);
  void check_sizes();
  /// nullptr if none is of the tensor's rank.
  const Form* form_of(const Tensor& tensor, std::int32_t rank) const;
  template <const TensorTable& kTable, std::size_t kIndex>
  void fill_tensor(void* args) const;
  void keep_alignment(const fa2_array& tensor);

  void add(std::size_t row, std::string_view what, std::string value, std::string rule);
  void add_shape(std::size_t row, const Form* form);
  std::string text_of(const Form& form) const;

  const TensorTable& table_;
  std::span<const fa2_array* const> tensors_;
  std::uint32_t given_ = 0;
  std::uint32_t known_ = 0;
  std::int32_t device_ = FA2_OTHER_DEVICE;  ///< of the first tensor that has one
  std::size_t device_row_ = 0;
  std::int32_t dtype_ = FA2_OTHER_DTYPE;
  std::size_t dtype_row_ = 0;
  std::uint64_t address_bits_ = 0;  ///< of strided rows, or'ed together
  bool is_ascending_ = true;
  std::array<std::int64_t, kMostSizes> sizes_{};
  std::array<const Form*, kMostTensors> forms_;  ///< of given tensors
  Violations found_;
};

template <class Value>
void put(void* to, std::uint16_t offset, Value value) {
  std::memcpy(static_cast<char*>(to) + offset, &value, sizeof value);
}

/// Returns the distance of rows along the first dimension, also where there is one row alone.
inline std::int64_t row_stride(const fa2_array& tensor) {
  return tensor.shape[0] > 1 ? tensor.strides[0] : tensor.shape[1];
}

// Loops over tables are unrolled: each field is one store.
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
  for (const TensorFlag& flag : kTable.flags)
    put(problem, flag.field, std::int32_t{(given_ & flag.tensors) != 0});
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (fill_tensor<kTable, i>(kTable.tensors[i].is_elsewhere ? more : args), ...);
  }
  (std::make_index_sequence<kTable.tensors.size()>());
}

template <const TensorTable& kTable, std::size_t kIndex>
void Binding::fill_tensor(void* args) const {
  constexpr const Tensor& row = kTable.tensors[kIndex];
  if (row.field == kNowhere) return;
  constexpr std::int8_t needed = kTable.size_index(row.text.used_if);
  const bool given = is_given(kIndex) && (needed < 0 || sizes_[needed < 0 ? 0 : needed] > 0);
  const fa2_array* const t = given ? tensors_[kIndex] : nullptr;
  if constexpr (row.second_form != kNowhere)
    put(args, row.second_form, std::int32_t{given && forms_[kIndex] == &kTable.tensors[kIndex].forms[1]});
  put(args, row.field, given ? t->data : nullptr);
  if constexpr (row.layout == StrideRule::strided) {
    if (!given) return;
    const auto stride_of = [&](Axis axis) {
      const std::int8_t at = forms_[kIndex]->axes[static_cast<std::size_t>(axis)];
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
