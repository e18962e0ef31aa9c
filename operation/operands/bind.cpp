// The valid path computes and compares; every text is made in a cold branch.
#include <fmt/format.h>
#include <operation/operands/bind.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

/// No address space holds more elements along one dimension.
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 48;

bool is_contiguous(const fa2_array& tensor) {
  std::int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, tensor.shape[i], &expected)) return false;
  }
  return true;
}

std::string numbers_text(const std::int64_t* numbers, int count) {
  return fmt::format("({})", fmt::join(numbers, numbers + count, ", "));
}

static_assert(static_cast<std::int32_t>(ElementType::e4m3) == FA2_FLOAT8_E4M3FN,
              "both enumerations are written from one table");

/// Returns whether the dtype of a fa2_array is an ElementType.
bool is_element_type(std::int32_t dtype) {
  return dtype >= 0 && dtype < static_cast<std::int32_t>(std::size(kElementTypes));
}

std::string_view dtype_word(std::int32_t dtype) {
  return is_element_type(dtype) ? kElementTypes[dtype].name : "another one";
}

std::string device_text(std::int32_t device) {
  if (device >= 0) return fmt::format("cuda:{}", device);
  return device == FA2_INTERPRETER_DEVICE ? "cpu" : "neither CUDA nor the CPU";
}

bool takes(const Tensor& tensor, std::int32_t dtype) {
  if (tensor.has_dtype)
    return is_half(dtype) || (is_element_type(dtype) && dtype_word(dtype) == tensor.text.other_type);
  return dtype == static_cast<std::int32_t>(tensor.element);
}

std::string rule_of(const Tensor& tensor) {
  if (!tensor.has_dtype) return fmt::format("must be {}", names_of(tensor.element).name);
  if (*tensor.text.other_type == 0) return "must be float16 or bfloat16";
  return fmt::format("must be float16, bfloat16 or {}", tensor.text.other_type);
}

}  // namespace

Binding::Binding(const TensorTable& table, std::span<const fa2_array* const> tensors)
    : table_(table), tensors_(tensors.first(std::min(tensors.size(), table.tensors.size()))) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i] != nullptr) given_ |= 1u << i;
  for (std::size_t i = table.tensors.size(); i < tensors.size(); ++i)
    if (tensors[i] != nullptr)
      found_.push_back({fmt::format("tensors[{}]", i), "given",
                        fmt::format("must be NULL: there are {} tensors", table.tensors.size())});
  check_given();
  for (std::uint32_t left = given_; left != 0; left &= left - 1)
    check(static_cast<std::size_t>(__builtin_ctz(left)));
  check_sizes();
}

void Binding::check_given() {
  for (std::uint32_t missing = table_.required & ~given_; missing != 0; missing &= missing - 1)
    found_.push_back({std::string(table_.tensors[static_cast<std::size_t>(__builtin_ctz(missing))].name()),
                      "none", "must be given"});
  for (std::uint32_t left = table_.related; left != 0; left &= left - 1)
    check_relations(static_cast<std::size_t>(__builtin_ctz(left)));
}

void Binding::check_relations(std::size_t i) {
  const Tensor& row = table_.tensors[i];
  const auto complain = [&](const char* value, const char* rule, std::int16_t other) {
    const std::string_view name = table_.tensors[static_cast<std::size_t>(other)].name();
    found_.push_back({std::string(row.name()), value, fmt::format("must be {} {}", rule, name)});
  };
  const bool has_other = row.with >= 0 && is_given(static_cast<std::size_t>(row.with));
  if (!is_given(i)) {
    if (!row.is_optional && has_other) complain("none", "given with", row.with);
    return;
  }
  if (row.with >= 0 && !has_other) complain("given", "none without", row.with);
  if (row.without >= 0 && is_given(static_cast<std::size_t>(row.without)))
    complain("given", "none with", row.without);
}

void Binding::check(std::size_t row) {
  const fa2_array& t = tensor(row);
  // The common case is like a tensor that was already checked: only check_kind() sets dtype_ and device_.
  const bool is_usual = is_half(t.dtype) && t.dtype == dtype_ && t.device == device_ && t.flags == 0 &&
                        table_.tensors[row].has_dtype && table_.tensors[row].like < 0;
  if (!is_usual) check_kind(row);
  const Form* const form = form_of(table_.tensors[row], t.ndim);
  forms_[row] = form;
  if (form == nullptr) return add_shape(row, nullptr);
  bool fits = true, is_empty = false;
  for (int i = 0; i < form->rank; ++i) {
    const std::int64_t n = t.shape[i];
    if (n < 0 || n > kLargestExtent) return add_shape(row, nullptr);
    is_empty |= n == 0;
    const Extent& extent = form->extents[static_cast<std::size_t>(i)];
    const std::int64_t value = n * extent.over - extent.plus;
    if (extent.size < 0) {
      fits &= value == 0;
      continue;
    }
    std::int64_t& size = sizes_[static_cast<std::size_t>(extent.size)];
    const std::uint32_t bit = 1u << extent.size;
    if ((known_ & bit) == 0) size = value, known_ |= bit;
    fits &= size == value;
  }
  if (!fits) return add_shape(row, form);
  if (is_empty) return;
  if (t.data == nullptr) add(row, "data", "NULL", "must point to the tensor");
  check_strides(row, *form);
}

void Binding::check_kind(std::size_t row) {
  const fa2_array& t = tensor(row);
  check_element(row);
  if (t.device < FA2_INTERPRETER_DEVICE || t.device == FA2_CURRENT_DEVICE) {
    add(row, "device", device_text(t.device), "must be a CUDA device or the CPU");
  } else if (device_ == FA2_OTHER_DEVICE) {
    device_ = t.device;
    device_row_ = row;
  } else if (t.device != device_) {
    add(row, "device", device_text(t.device),
        fmt::format("must be {}, as {}", device_text(device_), table_.tensors[device_row_].name()));
  }
  if ((t.flags & ~FA2_READ_ONLY) != 0)
    add(row, "flags", fmt::format("{}", t.flags), "must be 0 or FA2_READ_ONLY");
  const Tensor& described = table_.tensors[row];
  if (described.is_written && (t.flags & FA2_READ_ONLY) != 0)
    found_.push_back({std::string(described.name()), "read-only", "must be writable: the call writes it"});
}

void Binding::check_element(std::size_t row) {
  const Tensor& described = table_.tensors[row];
  const std::int32_t dtype = tensor(row).dtype;
  if (!takes(described, dtype)) return add(row, "dtype", std::string(dtype_word(dtype)), rule_of(described));
  const std::int16_t like = described.like;
  if (like >= 0 && is_given(static_cast<std::size_t>(like))) {
    const std::int32_t wanted = tensor(static_cast<std::size_t>(like)).dtype;
    if (dtype != wanted && takes(table_.tensors[static_cast<std::size_t>(like)], wanted))
      add(row, "dtype", std::string(dtype_word(dtype)),
          fmt::format("must be {}, as {}", dtype_word(wanted),
                      table_.tensors[static_cast<std::size_t>(like)].name()));
    return;
  }
  if (!is_half(dtype)) return;
  if (dtype_ == FA2_OTHER_DTYPE) {
    dtype_ = dtype;
    dtype_row_ = row;
  } else if (dtype != dtype_) {
    add(row, "dtype", std::string(dtype_word(dtype)),
        fmt::format("must be {}, as {}", dtype_word(dtype_), table_.tensors[dtype_row_].name()));
  }
}

void Binding::check_strides(std::size_t row, const Form& form) {
  const fa2_array& t = tensor(row);
  const StrideRule layout = table_.tensors[row].layout;
  if (layout == StrideRule::contiguous) {
    if (!is_contiguous(t))
      add(row, "strides", numbers_text(t.strides, t.ndim), "must be contiguous: pass a contiguous copy");
    return;
  }
  const int last = t.ndim - 1;
  if (layout == StrideRule::strided && form.ends_in_column) keep_alignment(t);
  if ((layout == StrideRule::rows || form.ends_in_column) && t.shape[last] > 1 && t.strides[last] != 1)
    add(row, "strides", numbers_text(t.strides, t.ndim),
        "must have contiguous rows: the stride of the last dimension must be 1");
}

void Binding::keep_alignment(const fa2_array& t) {
  std::uint64_t strides = 0;
  bool is_ascending = true;
  for (int i = 0; i < t.ndim - 1; ++i) {
    if (t.shape[i] <= 1) continue;
    strides |= static_cast<std::uint64_t>(t.strides[i]);
    is_ascending &= t.strides[i] > 0;
  }
  const auto bytes =
      is_element_type(t.dtype) ? static_cast<std::uint64_t>(bytes_of(ElementType(t.dtype))) : 1;
  address_bits_ |= reinterpret_cast<std::uintptr_t>(t.data) | strides * bytes;
  is_ascending_ &= is_ascending;
}

fa2_placement Binding::placement() const {
  const std::int32_t alignment = address_bits_ % 16 != 0 ? FA2_ROWS_ELEMENT
                                 : is_ascending_         ? FA2_ROWS_16_BYTES
                                                         : FA2_ROWS_16_BYTES_ANY_ORDER;
  return {device_, alignment};
}

const Form* Binding::form_of(const Tensor& tensor, std::int32_t rank) const {
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.form_count); ++i) {
    const Form& form = tensor.forms[i];
    const bool is_conditional = form.if_given >= 0 || form.if_known >= 0;
    if (form.if_given >= 0 && !is_given(static_cast<std::size_t>(form.if_given))) continue;
    if (form.if_known >= 0 && !is_known(static_cast<std::size_t>(form.if_known))) continue;
    if (form.rank == rank) return &form;
    if (is_conditional) return nullptr;
  }
  return nullptr;
}

void Binding::check_sizes() {
  for (std::uint32_t left = known_; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(__builtin_ctz(left));
    const Size& size = table_.sizes[i];
    if (sizes_[i] >= size.least && sizes_[i] <= size.most()) continue;
    found_.push_back({std::string(size.name), fmt::format("{}", sizes_[i]),
                      sizes_[i] < size.least ? fmt::format("must be at least {}", size.least)
                                             : fmt::format("must be at most {}", size.most())});
  }
}

void Binding::add(std::size_t row, std::string_view what, std::string value, std::string rule) {
  found_.push_back(
      {fmt::format("{}.{}", table_.tensors[row].name(), what), std::move(value), std::move(rule)});
}

std::string Binding::text_of(const Form& form) const {
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(form.rank); ++i) {
    const Extent& extent = form.extents[i];
    const std::int64_t n = extent.size < 0
                               ? extent.plus
                               : (sizes_[static_cast<std::size_t>(extent.size)] + extent.plus) / extent.over;
    text += fmt::format("{}{}", i > 0 ? ", " : "", n);
  }
  return fmt::format("({})", text);
}

/// Reports a wrong shape. `form` is the expected one, whose sizes are all known; null if no form has the tensor's rank.
void Binding::add_shape(std::size_t row, const Form* form) {
  const fa2_array& t = tensor(row);
  std::string_view forms = table_.tensors[row].text.shape;
  if (form == nullptr) {
    std::string all;
    while (!forms.empty()) {
      const std::size_t bar = forms.find(" | ");
      all += fmt::format("{}{}", all.empty() ? "" : ", else ", forms.substr(0, bar));
      forms = bar == forms.npos ? std::string_view() : forms.substr(bar + 3);
    }
    const bool is_readable = t.ndim >= 0 && t.ndim <= FA2_MOST_DIMENSIONS;
    return add(row, "shape",
               is_readable ? numbers_text(t.shape, t.ndim) : fmt::format("{} dimensions", t.ndim),
               "must be " + all);
  }
  for (auto number = form - table_.tensors[row].forms.data(); number > 0; --number)
    forms.remove_prefix(forms.find(" | ") + 3);
  const std::string_view words = forms.substr(0, forms.find(')') + 1);
  add(row, "shape", numbers_text(t.shape, t.ndim), fmt::format("must be {} = {}", text_of(*form), words));
}

}  // namespace fa2
