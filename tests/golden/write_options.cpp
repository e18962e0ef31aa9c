// Writes the blocks of hand-written files that follow from rows: Python's options, its gradients, and a problem's fields.
#include <cstddef>
#include <string_view>

#include "described_structs.h"
#include "written_files.h"

namespace fa2::test {
namespace {

using Lines = std::vector<std::string>;

struct Option {
  std::string name, python_type, torch_type, start, text;
  bool is_tensor = false;

  /// Python's attention() has others in place of those without a default: causal, window_size, dropout_state.
  bool is_keyword() const { return !start.empty(); }
};

template <class Value>
Option number(const RowText& row) {
  const std::string name = row.option, help = row.help;
  if constexpr (std::is_same_v<Value, bool>)
    return {name, "bool", "bool", "False", help};
  else if constexpr (std::is_same_v<Value, float>)
    return {name, "float", "float", "0.0", help + "; 0: none"};
  else if constexpr (std::is_same_v<Value, std::optional<float>>)
    return {name, "float | None", "float?", "None", help};
  else if constexpr (kIsOptional<Value>)  // 0 means absent, unless it is a value
    return row.least > 0 ? Option{name, "int", "SymInt", "0", help + "; 0: none"}
                         : Option{name, "int", "SymInt", "", ""};
  else if constexpr (std::is_same_v<Value, LseBase>)
    return {name, "LseBase", "str", "\"natural\"", fmt::format("{}; {}", help, joined_words<Value>())};
  else if constexpr (std::is_same_v<Value, std::int64_t>)
    return {name, "int | None", "SymInt?", "None", help};
  else if constexpr (std::is_same_v<Value, std::int32_t>)
    return {name, "int", "int", "0", help};
  else
    return {name, "int", "int", "", ""};
}

/// "float32 (heads_q) or (batch, heads_q): slope * distance is subtracted from scores"
Option tensor_option(const Tensor& tensor) {
  const std::string dtype = tensor.has_dtype ? "" : fmt::format("{} ", names_of(tensor.element).name);
  std::string shape = tensor.text.shape;
  for (std::size_t bar; (bar = shape.find(" | ")) != shape.npos;) shape.replace(bar, 3, " or ");
  return {std::string(tensor.name()),
          "Any",
          "Tensor?",
          "None",
          fmt::format("{}{}; {}", dtype, shape, tensor.text.help),
          true};
}

template <class Struct>
void add_numbers(std::vector<Option>& options) {
  each_row<Struct>([&](const auto& row) {
    using Value = MemberType<Struct, std::remove_cvref_t<decltype(row)>>;
    if (*row.text.option != 0) options.push_back(number<Value>(row.text));
  });
}

/// Returns the numbers, then all tensors after q, k, v, out and lse, as fa2/c_call.h numbers them.
std::vector<Option> options() {
  std::vector<Option> made;
  add_numbers<AttentionProblem>(made);
  add_numbers<AttentionArgs>(made);
  const auto first = static_cast<std::size_t>(kAttentionTable.tensor_index("lse")) + 1;
  for (std::size_t i = first; i < kAttentionTable.tensors.size(); ++i)
    made.push_back(tensor_option(kAttentionTable.tensors[i]));
  return made;
}

/// Returns one line per option that `takes` accepts.
template <class Line, class Takes>
Lines lines_of(const Line& line, const Takes& takes) {
  Lines lines;
  for (const Option& option : options())
    if (takes(option)) lines.push_back(line(option));
  return lines;
}
template <class Line>
Lines lines_of(const Line& line) {
  return lines_of(line, [](const Option&) { return true; });
}
template <class Line>
Lines keywords(const Line& line) {
  return lines_of(line, [](const Option& option) { return option.is_keyword(); });
}

/// Lines of at most 120 columns, for a docstring.
Lines texts() {
  constexpr std::size_t kColumns = 116;
  Lines lines;
  for (const Option& option : options()) {
    if (!option.is_keyword()) continue;
    std::string rest = fmt::format("{}: {}.", option.name, option.text);
    while (rest.size() > kColumns) {
      const std::size_t space = rest.rfind(' ', kColumns);
      lines.push_back(rest.substr(0, space));
      rest = "    " + rest.substr(space + 1);
    }
    lines.push_back(rest);
  }
  lines.push_back("");
  return lines;
}

/// A line for each flag of a problem.
template <class Line>
Lines flags(const Line& line) {
  Lines lines;
  for (const Member& member : kCStruct<AttentionProblem>.members)
    if (member.is_flag) lines.push_back(line(member.text));
  return lines;
}

/// The tensors of numbers per head, by the flags that use them.
Lines head_numbers() {
  Lines lines;
  AttentionArgs args;
  visit_numbers(
      [&](const char* flag, const char* name, bool, auto& value, auto&...) {
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>)
          lines.push_back(fmt::format("\"{}\": \"{}\",", flag, name));
      },
      AttentionProblem{}, args);
  return lines;
}

/// The options whose gradients a backward writes.
Lines differentiable_options() {
  Lines lines;
  for (const Tensor& tensor : kBackwardTable.tensors)
    if (tensor.is_elsewhere && tensor.with >= 0) lines.push_back(fmt::format("\"{}\",", tensor.text.with));
  return lines;
}

/// FA2_DQ = 1, and a bit for each other gradient.
Lines gradient_flags() {
  Lines lines;
  for (const Member& member : kCStruct<Gradients>.members)
    if (member.is_flag)
      lines.push_back(fmt::format("FA2_{} = {},", upper(member.text.name), 1 << lines.size()));
  return lines;
}

Lines append_tensor_names() {
  Lines lines;
  for (const Tensor& tensor : kAppendTable.tensors) lines.push_back(fmt::format("{},", tensor.name()));
  return lines;
}

/// Returns "{2, 16, FA2_F16}," for C, and "\"float16\": 0," for Python.
Lines element_types(bool for_c) {
  Lines lines;
  for (const ElementTypeNames& names : kElementTypes)
    lines.push_back(for_c ? fmt::format("{{{}, {}, {}}},", names.dlpack, names.bits, names.c_name)
                          : fmt::format("\"{}\": {},", names.name, static_cast<int>(names.type)));
  return lines;
}

Lines problem_fields() {
  Lines lines;
  const DescribedStruct problem = described_structs().front();
  for (const CField& field : problem.fields)
    if (field.name != "struct_size") lines.push_back(fmt::format("FIELD({}),", field.name));
  return lines;
}

}  // namespace

std::vector<WrittenBlock> written_blocks() {
  const auto block = [](const std::string& path, const std::string& name, const Lines& lines) {
    return WrittenBlock{path, "written: " + name, "end of " + name, lines};
  };
  const Lines fields = lines_of([](const auto&o) { return o.name + ": " + o.python_type; }),
              types = keywords([](const auto&o) { return o.name + ": " + o.python_type; }),
              names = lines_of([](const auto&o) { return o.name + ","; }),
              parameters = keywords(
                  [](const auto&o) { return fmt::format("{}: {} = {},", o.name, o.python_type, o.start); }),
              schema =
                  lines_of([](const auto&o) { return fmt::format("\"{} {}, \"", o.torch_type, o.name); }),
              enumerators = lines_of([](const auto&o) { return upper(o.name) + ","; },
                                     [](const auto&o) { return !o.is_tensor; });
  return {block("include/fa2/c_backward.h", "gradient flags", gradient_flags()),
          block("python/fa2/_call.py", "option fields", fields),
          block("python/fa2/_call.py", "tensor options",
                lines_of([](const auto& o) { return fmt::format("\"{}\",", o.name); },
                         [](const auto& o) { return o.is_tensor; })),
          block("python/fa2/_call.py", "differentiable options", differentiable_options()),
          block("python/fa2/_call.py", "problem flags",
                flags([](const RowText& row) { return fmt::format("\"{}\": \"{}\",", row.name, row.help); })),
          block("python/fa2/_call.py", "numbers per head", head_numbers()),
          block("python/fa2/_attention.py", "option parameters", parameters),
          {"python/fa2/_attention.py", "Numbers and tensors:", "Rows of q in no sequence", texts()},
          block("python/fa2/_attention.py", "option names", names),
          block("python/fa2/_cache.py", "append tensors", append_tensor_names()),
          block("python/fa2/_flash_call.py", "option parameters", parameters),
          block("python/fa2/_flash_call.py", "option names", names),
          block("python/fa2/_machine.py", "flag parameters", flags([](const RowText& row) {
                  return fmt::format("{}: bool | Iterable[bool] = False,", row.name);
                })),
          block("python/fa2/_torch_ops.py", "option schema", schema),
          block("python/fa2/_types.py", "option types", types),
          block("python/fa2/_hooks.py", "element types", element_types(false)),
          block("python/src/tensor.c", "element types", element_types(true)),
          block("python/src/call.h", "option enumerators", enumerators),
          block("python/src/numbers.c", "problem fields", problem_fields())};
}

}  // namespace fa2::test
