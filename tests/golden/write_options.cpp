// Blocks of hand-written files that hold the order of Python's options, and of a problem's fields.
#include <string_view>

#include "described_structs.h"
#include "written_files.h"

namespace fa2::test {
namespace {

struct Option {
  std::string name, python_type, torch_type;
  bool is_tensor = false;
};

template <class Value>
Option number(const char* name) {
  if constexpr (std::is_same_v<Value, bool>)
    return {name, "bool", "bool"};
  else if constexpr (std::is_same_v<Value, float>)
    return {name, "float", "float"};
  else if constexpr (std::is_same_v<Value, std::optional<float>>)
    return {name, "float | None", "float?"};
  else if constexpr (kIsOptional<Value>)
    return {name, "int", "SymInt"};
  else if constexpr (std::is_same_v<Value, std::int64_t>)
    return {name, "int | None", "SymInt?"};
  else
    return {name, "int", "int"};
}

template <class Struct>
void add_numbers(std::vector<Option>& options) {
  each_row<Struct>([&](const auto& row) {
    using Value = MemberType<Struct, std::remove_cvref_t<decltype(row)>>;
    if (*row.text.option != 0) options.push_back(number<Value>(row.text.option));
  });
}

/// Numbers, then the tensors that the problem need not take.
std::vector<Option> options() {
  std::vector<Option> made;
  add_numbers<AttentionProblem>(made);
  add_numbers<AttentionArgs>(made);
  for (const Tensor& tensor : kAttentionTable.tensors)
    if (*tensor.text.used_if != 0) made.push_back({std::string(tensor.name()), "Any", "Tensor?", true});
  return made;
}

/// A line for each option.
template <class Line>
std::vector<std::string> lines_of(const Line& line) {
  std::vector<std::string> lines;
  for (const Option& option : options()) lines.push_back(line(option));
  return lines;
}

std::vector<std::string> enumerators() {
  std::vector<std::string> lines;
  for (const Option& option : options()) {
    lines.push_back(upper(option.name) + ",");
    if (option.is_tensor) break;  // the others follow as fa2/c_call.h numbers them
  }
  return lines;
}

/// "{2, 16, FA2_F16}," for C, and "\"float16\": 0," for Python.
std::vector<std::string> element_types(bool for_c) {
  std::vector<std::string> lines;
  for (const ElementTypeNames& names : kElementTypes)
    lines.push_back(for_c ? fmt::format("{{{}, {}, {}}},", names.dlpack, names.bits, names.c_name)
                          : fmt::format("\"{}\": {},", names.name, static_cast<int>(names.type)));
  return lines;
}

/// The keywords of attention() for tensors, with a type or a default.
std::vector<std::string> tensor_options(const std::string& ending) {
  std::vector<std::string> lines;
  for (const Option& option : options())
    if (option.is_tensor) lines.push_back(option.name + ending);
  return lines;
}

std::vector<std::string> problem_fields() {
  std::vector<std::string> lines;
  const DescribedStruct problem = described_structs().front();
  for (const CField& field : problem.fields)
    if (field.name != "struct_size") lines.push_back(fmt::format("FIELD({}),", field.name));
  return lines;
}

}  // namespace

std::vector<WrittenBlock> written_blocks() {
  const auto fields = lines_of([](const Option& o) { return o.name + ": " + o.python_type; });
  const auto names = lines_of([](const Option& o) { return o.name + ","; });
  const auto schema =
      lines_of([](const Option& o) { return fmt::format("\"{} {}, \"", o.torch_type, o.name); });
  return {{"python/fa2/_call.py", "option fields", fields},
          {"python/fa2/_attention.py", "option names", names},
          {"python/fa2/_flash_call.py", "option names", names, true},
          {"python/fa2/_torch_ops.py", "option schema", schema},
          {"python/fa2/_types.py", "tensor options", tensor_options(": Any")},
          {"python/fa2/_hooks.py", "element types", element_types(false)},
          {"python/src/tensor.c", "element types", element_types(true)},
          {"python/src/call.h", "option enumerators", enumerators()},
          {"python/src/numbers.c", "problem fields", problem_fields()}};
}

namespace {

/// Returns whether a Python file has a parameter or a variable with the name of the line "NAME,".
bool has_variable(const std::string& text, const std::string& line) {
  const std::string name = " " + line.substr(0, line.find(','));
  return text.find(name + ": ") != text.npos || text.find(name + " = ") != text.npos ||
         text.find(name + ", ") != text.npos;
}

}  // namespace

std::string with_block(const std::string& text, const WrittenBlock& block) {
  const std::size_t name = text.find("written: " + block.name), end = text.find("end of " + block.name);
  if (name == text.npos || end == text.npos) return "";
  const std::size_t begin = text.rfind('\n', name) + 1, first = text.find('\n', name) + 1,
                    last = text.rfind('\n', end) + 1;
  const std::string indent = text.substr(begin, text.find_first_not_of(' ', begin) - begin);
  std::string lines;
  for (const std::string& line : block.lines)
    lines += indent + (block.names_variables && !has_variable(text, line) ? "None," : line) + "\n";
  return text.substr(0, first) + lines + text.substr(last);
}

}  // namespace fa2::test
