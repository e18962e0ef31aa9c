// Tensors that have shapes, into the sizes, pointers and strides of a call. All that is wrong with them is listed.
#pragma once

#include <fa2/c_tensors.h>
#include <operation/operands/tensor_table.h>
#include <operation/rules/violations.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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

  /// found() must be empty. Writes sizes and flags to `problem`, and tensors to `args` or `more`; 0 for all that is not given.
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
  static void fill_tensor(const Tensor& tensor, const fa2_array& given, const Form& form, void* args);
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

}  // namespace fa2
