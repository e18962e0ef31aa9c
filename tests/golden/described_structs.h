// Public structs as lists of C fields, from which the files for other languages are written.
#pragma once

#include <core/enum_words.h>
#include <fmt/format.h>
#include <operation/operands/row_tables.h>
#include <operation/operands/tensor_tables.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace fa2::test {

/// A field of a C struct.
struct CField {
  std::string name, type, initial, comment;
  std::uint16_t offset = 0;
};

/// A public struct and its C struct.
struct DescribedStruct {
  std::string name, c_name;
  std::vector<Member> members;
  std::vector<std::string> defaults;  ///< defaults of the members
  std::vector<CField> fields;         ///< in memory order
};

/// Returns "dropout_seed" for "dropout.seed".
inline std::string c_name_of(const char* name) {
  std::string made = name;
  std::replace(made.begin(), made.end(), '.', '_');
  return made;
}

/// Returns the words of an enumeration, as in "0: f16, 1: bf16".
template <class Enum>
std::string values_text() {
  std::string text;
  for (const auto& [value, word] : kWords<Enum>)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", static_cast<int>(value), word);
  return text;
}
template <>
inline std::string values_text<Determinism>() {
  return "FA2_FASTEST or FA2_BITWISE";
}

/// Returns a tensor's description, as in "(heads_q); float32; optional with varlen".
template <class Typed>  // a Member or a Tensor
std::string tensor_text(const Typed& typed) {
  const RowText& text = typed.text;
  std::string made = text.shape;
  if (!made.empty() && !typed.has_dtype) made += fmt::format("; {}", names_of(typed.element).name);
  if (*text.other_type != 0) made += fmt::format("; or {}", text.other_type);
  const char* const use = text.is_optional ? "optional" : "given";
  if (*text.used_if != 0)
    made += fmt::format("{}{} with {}", made.empty() ? "" : "; ", use, text.used_if);
  else if (text.is_optional)
    made += fmt::format("{}optional", made.empty() ? "" : "; ");
  return made;
}

inline std::string comment_of(const Member& member) {
  const std::string tensor = member.is_pointer ? tensor_text(member) : "";
  return member.text.help + (tensor.empty() ? "" : "; " + tensor);
}

inline std::string c_type_text(const Member& member) {
  constexpr const char* kPointed[] = {"void",    "void",     "float",
                                      "int32_t", "uint64_t", "uint8_t"};  // by ElementType
  constexpr const char* kTypes[] = {"int32_t",
                                    "float",
                                    "int64_t",
                                    "uint64_t",
                                    "",
                                    "fa2_tensor",
                                    "const fa2_args*",
                                    "const fa2_capture*",
                                    "const fa2_block_map*",
                                    "float* const*"};
  if (member.type != CType::pointer) return kTypes[static_cast<std::size_t>(member.type)];
  return fmt::format("{}{}*", member.is_const ? "const " : "",
                     member.has_dtype ? "void" : kPointed[static_cast<std::size_t>(member.element)]);
}

template <class Value>
std::string default_text(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
    return fmt::format("{}", static_cast<long long>(value));
  else
    return "0";
}

template <class Struct>
DescribedStruct described(std::string name, std::string c_name) {
  const auto& c = kCStruct<Struct>;
  DescribedStruct made{std::move(name), c_name, {c.members.begin(), c.members.end()}, {}, {}};
  made.fields.push_back(
      {"struct_size", "uint32_t", fmt::format("sizeof({})", c_name), fmt::format("sizeof({})", c_name), 0});
  if (c.reserved != kNowhere) made.fields.push_back({"reserved", "int32_t", "0", "0", c.reserved});
  const Struct initial;
  std::size_t next = 0;
  each_row<Struct>([&](const auto& row) {
    const Member& member = c.members[next++];
    const std::string field = c_name_of(row.text.name);
    const auto& value = member_of(initial, row);
    using Value = std::remove_cvref_t<decltype(value)>;
    made.defaults.push_back(default_text(value));
    std::string comment = comment_of(member);
    if constexpr (std::is_enum_v<Value>) comment += "; " + values_text<Value>();
    if (member.is_flag) comment += "; 0 or 1";
    if (member.is_optional_value)
      made.fields.push_back(
          {"has_" + field, "int32_t", "0", fmt::format("0: no {}", field), member.presence});
    const std::string start = member.type == CType::tensor ? "FA2_TENSOR_INIT" : made.defaults.back();
    made.fields.push_back({field, c_type_text(member), start, comment, member.field});
  });
  std::sort(made.fields.begin(), made.fields.end(),
            [](const CField& a, const CField& b) { return a.offset < b.offset; });
  return made;
}

inline std::vector<DescribedStruct> described_structs() {
  return {described<AttentionProblem>("AttentionProblem", "fa2_problem"),
          described<AttentionArgs>("AttentionArgs", "fa2_args"),
          described<BackwardArgs>("BackwardArgs", "fa2_backward_args"),
          described<AppendProblem>("AppendProblem", "fa2_append_problem"),
          described<AppendArgs>("AppendArgs", "fa2_append_args"),
          described<MergeProblem>("MergeProblem", "fa2_merge_problem"),
          described<MergeArgs>("MergeArgs", "fa2_merge_args")};
}

/// The enumerator of a tensor in a C binding's list, or of the length of such a list.
struct CEnumerator {
  std::string name;
  std::size_t value = 0;
};
std::vector<CEnumerator> tensor_enumerators();

/// Returns "FA2_PROBLEM_INIT" for "fa2_problem".
inline std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace fa2::test
