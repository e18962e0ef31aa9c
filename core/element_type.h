// Element types of tensors, and a kernel's access to them.
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fa2 {

/// The values are those of fa2_array.dtype.
enum class ElementType : std::uint8_t { f16, bf16, f32, i32, i64, u8, e4m3 };

/// An element type in the words of other interfaces.
struct ElementTypeNames {
  ElementType type;
  int bits;
  std::string_view name;    ///< PyTorch's and numpy's
  std::string_view c_name;  ///< the enumerator of fa2_array.dtype
  int dlpack;               ///< DLDataTypeCode
};

/// In the order of ElementType. C's enumerators, the tensors that Python reads and the texts of rules follow from this table.
inline constexpr ElementTypeNames kElementTypes[] = {
    {ElementType::f16, 16, "float16", "FA2_F16", 2},
    {ElementType::bf16, 16, "bfloat16", "FA2_BF16", 4},
    {ElementType::f32, 32, "float32", "FA2_FLOAT32", 2},
    {ElementType::i32, 32, "int32", "FA2_INT32", 0},
    {ElementType::i64, 64, "int64", "FA2_INT64", 0},
    {ElementType::u8, 8, "uint8", "FA2_UINT8", 1},
    {ElementType::e4m3, 8, "float8_e4m3fn", "FA2_FLOAT8_E4M3FN", 10},
};

constexpr const ElementTypeNames& names_of(ElementType type) {
  return kElementTypes[static_cast<std::size_t>(type)];
}
constexpr int bytes_of(ElementType type) {
  return names_of(type).bits / 8;
}
static_assert(names_of(ElementType::e4m3).type == ElementType::e4m3,
              "the table is in the order of ElementType");

/// Returns the element type with this name. Does not compile if there is none.
constexpr ElementType element_type(std::string_view name) {
  for (const ElementTypeNames& names : kElementTypes)
    if (names.name == name) return names.type;
  throw "no element type has this name";
}

/// Returns the element type of tensors with this dtype.
constexpr ElementType element_of(DType dtype) {
  return dtype == DType::f16 ? ElementType::f16 : ElementType::bf16;
}

/// Returns the element type of K and V, for ds_mla that of most columns.
constexpr ElementType element_of(KvType type, DType dtype) {
  return type == KvType::e4m3 || type == KvType::ds_mla ? ElementType::e4m3 : element_of(dtype);
}

/// `write`: the kernel never reads the old contents. `read_write`: the buffer has contents that it reads.
enum class Access : std::uint8_t { read, write, read_write };

}  // namespace fa2
