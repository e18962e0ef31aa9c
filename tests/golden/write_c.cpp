// Writes include/fa2/c_call.h and python/fa2/_c_structs.py.
#include <algorithm>
#include <string_view>

#include "described_structs.h"
#include "written_files.h"

namespace fa2::test {
namespace {

constexpr std::size_t kWidth = 110;

/// Returns `text` as comment lines of at most kWidth columns.
std::string comment_lines(const std::string& text, const std::string& indent) {
  std::string lines, line = indent + "/*";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (line.size() + 1 + word.size() + 3 > kWidth) lines += line + "\n", line = indent + " *";
    line += " " + word;
    at = end + 1;
  }
  return lines + line + " */\n";
}

std::string with_comment(const std::string& code, const std::string& comment) {
  if (code.size() + comment.size() + 7 <= kWidth) return fmt::format("{} /* {} */\n", code, comment);
  return comment_lines(comment, "  ") + code + "\n";
}

std::string struct_text(const DescribedStruct& described) {
  std::string text = fmt::format("/* fa2::{} */\ntypedef struct {} {{\n", described.name, described.c_name),
              initial;
  for (const CField& field : described.fields) {
    text += with_comment(fmt::format("  {} {};", field.type, field.name), field.comment);
    initial += (initial.empty() ? "" : ", ") + field.initial;
  }
  return text + fmt::format("}} {};\n#define {}_INIT {{{}}}\n\n", described.c_name, upper(described.c_name),
                            initial);
}

/// Returns the enumerator of a tensor. A gradient that is a tensor is FA2_GRAD_Q, because FA2_DQ is its bit
/// in a set of gradients.
std::string enumerator_of(const Tensor& tensor, const std::string& prefix) {
  std::string name(tensor.name());
  if (tensor.is_elsewhere && tensor.is_written) name = "grad_" + name.substr(name.find_first_not_of("d_"));
  const std::string made = prefix + upper(name);
  return made == "FA2_DROPOUT_MASK_MASK" ? "FA2_DROPOUT_MASK" : made;
}

std::string enumerators(const TensorTable& table, const std::string& prefix, std::size_t first = 0) {
  std::string text;
  for (std::size_t i = first; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    std::string comment = fmt::format("{}: {}", tensor.name(), tensor_text(tensor));
    if (*tensor.text.without != 0) comment += fmt::format("; not with {}", tensor.text.without);
    text += with_comment(fmt::format("  {} = {},", enumerator_of(tensor, prefix), i), comment);
  }
  return text;
}

std::string enumeration(const TensorTable& table, const std::string& operation, const std::string& prefix) {
  return fmt::format("/* The tensors of fa2_bind_{}(). */\nenum {{\n{}  {}TENSORS = {}\n}};\n\n", operation,
                     enumerators(table, prefix), prefix, table.tensors.size());
}

std::string attention_enumeration() {
  const std::size_t forward = kAttentionTable.tensors.size();
  return fmt::format(
      "/* The tensors of fa2_bind_attention(), and after them those that fa2_bind_backward() adds. */\nenum "
      "{{\n{}  FA2_ATTENTION_TENSORS = {},\n{}  FA2_BACKWARD_TENSORS = {}\n}};\n\n",
      enumerators(kAttentionTable, "FA2_"), forward, enumerators(kBackwardTable, "FA2_", forward),
      kBackwardTable.tensors.size());
}

/// The values of fa2_array.dtype.
std::string element_types() {
  std::string text =
      "/* Element types. A fa2_problem has one of the first two; fa2_array.dtype is any. FA2_OTHER_DTYPE: "
      "one that "
      "fa2 does\n * not know. */\nenum {\n  FA2_OTHER_DTYPE = -1";
  for (const ElementTypeNames& names : kElementTypes)
    text += fmt::format(",\n  {} = {}", names.c_name, static_cast<int>(names.type));
  return text + "\n};\n\n";
}

constexpr std::string_view kBegin =
    R"(/* Problems and arguments of calls in fa2's C interface, and the tensors of each operation. Written from the rows of
 * the C++ structs by fa2_write_files: do not edit. The C++ headers say more of each field. */
#ifndef FA2_C_CALL_H
#define FA2_C_CALL_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */

/* A (batch, head, row, head_dim) tensor: a pointer to memory that the device can use, and the distances in elements
 * between neighbouring batches, heads and rows, in this order; head_dim is contiguous. */
typedef struct fa2_tensor {
  void* data;
  int64_t strides[3];
} fa2_tensor;
#define FA2_TENSOR_INIT {0, {0, 0, 0}}

/* What texts of scores read in a call (fa2/c_score_text.h): a tensor, or a number. */
typedef struct fa2_capture {
  const void* data; /* of a tensor: the first element; NULL for a number */
  double number; /* of a number: the value */
  int64_t sizes[4]; /* of each dimension: 1 .. 2^31 - 1; 0 where there is no dimension */
  int64_t strides[4]; /* elements, of either sign, even 0 */
} fa2_capture;

/* Which blocks the mask of score_text shows: see fa2/c_block_map.h. */
typedef struct fa2_block_map fa2_block_map;

)";

std::string ctypes_of(const std::string& type) {
  if (type == "fa2_tensor") return "Tensor";
  if (type == "float") return "C.c_float";
  if (type == "const fa2_args*") return "C.POINTER(Args)";
  return type.back() == '*' ? "C.c_void_p" : "C.c_" + type.substr(0, type.size() - 2);
}

/// Returns "BackwardArgs" for "fa2_backward_args".
std::string class_name(const std::string& c_name) {
  std::string name;
  for (std::size_t i = 3; i < c_name.size(); ++i)
    name += c_name[i - 1] == '_' ? upper(c_name.substr(i, 1)) : c_name[i] == '_' ? "" : c_name.substr(i, 1);
  return name.substr(0, 1) == "_" ? name.substr(1) : name;
}

}  // namespace

std::vector<CEnumerator> tensor_enumerators() {
  std::vector<CEnumerator> made;
  const auto add = [&](const TensorTable& table, const std::string& prefix, const std::string& count,
                       std::size_t first = 0) {
    for (std::size_t i = first; i < table.tensors.size(); ++i)
      made.push_back({enumerator_of(table.tensors[i], prefix), i});
    made.push_back({count, table.tensors.size()});
  };
  add(kAttentionTable, "FA2_", "FA2_ATTENTION_TENSORS");
  add(kBackwardTable, "FA2_", "FA2_BACKWARD_TENSORS", kAttentionTable.tensors.size());
  add(kAppendTable, "FA2_APPEND_", "FA2_APPEND_TENSORS");
  add(kMergeTable, "FA2_MERGE_", "FA2_MERGE_TENSORS");
  add(kDropoutMaskTable, "FA2_DROPOUT_MASK_", "FA2_DROPOUT_MASK_TENSORS");
  return made;
}

std::string c_header() {
  std::string text = std::string(kBegin) + element_types();
  for (const DescribedStruct& described : described_structs()) text += struct_text(described);
  text +=
      "/* Shapes have several forms: the first whose condition holds. `if NAME`: that tensor is given, or "
      "that size known.\n"
      " * Without a condition: the first of the tensor's rank. */\n\n";
  text += attention_enumeration();
  text += enumeration(kAppendTable, "append", "FA2_APPEND_");
  text += enumeration(kMergeTable, "merge", "FA2_MERGE_");
  text += enumeration(kDropoutMaskTable, "dropout_mask", "FA2_DROPOUT_MASK_");
  return text + "/* clang-format on */\n\n#endif\n";
}

std::string ctypes_module() {
  std::string text =
      "\"\"\"The structs of include/fa2/c_call.h for ctypes. Written by fa2_write_files: do not "
      "edit.\"\"\"\n\nfrom __future__ import annotations\n\nimport ctypes as C\n\n\nclass "
      "Tensor(C.Structure):\n    _fields_ = [(\"data\", C.c_void_p), (\"strides\", C.c_int64 * 3)]\n";
  for (const DescribedStruct& described : described_structs()) {
    const std::string name = class_name(described.c_name);
    text += fmt::format("\n\nclass {}(C.Structure):\n    _fields_ = [\n", name);
    std::string initial;
    for (const CField& field : described.fields) {
      text += fmt::format("        (\"{}\", {}),\n", field.name, ctypes_of(field.type));
      const bool is_zero =
          field.initial == "0" || field.initial == "FA2_TENSOR_INIT" || field.name == "struct_size";
      if (!is_zero) initial += fmt::format(", {}={}", field.name, field.initial);
    }
    text += fmt::format(
        "    ]\n\n    @classmethod\n    def new(cls) -> {}:\n        return "
        "cls(struct_size=C.sizeof(cls){})\n",
        name, initial);
  }
  return text;
}

}  // namespace fa2::test
