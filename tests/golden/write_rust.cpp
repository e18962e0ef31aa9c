// Writes the C structs and enumerators (bindings/rust/src/sys/call.rs, call_constants.rs) and the safe structs of each operation (src/calls).
#include <iterator>
#include <map>
#include <string_view>

#include "described_structs.h"
#include "written_files.h"

namespace fa2::test {
namespace {

constexpr const char* kBegin =
    "// Written from the rows of the C++ structs by fa2_write_files: do not edit.\n";

/// Returns `text` as the lines of a doc comment.
std::string doc_lines(const std::string& text, const std::string& indent) {
  constexpr std::size_t kColumns = 110;
  std::string lines, line = indent + "///";
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find(' ', at), text.size());
    if (line.size() + 1 + end - at > kColumns) lines += line + "\n", line = indent + "///";
    line += " " + text.substr(at, end - at);
  }
  return lines + line + "\n";
}

// ---- the C structs ----

std::string raw_type(const std::string& c_type) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{"int32_t", "i32"}, {"uint32_t", "u32"},
                                                                      {"int64_t", "i64"}, {"uint64_t", "u64"},
                                                                      {"float", "f32"},   {"void", "c_void"}};
  constexpr std::string_view kConst = "const ", kConstPointers = " const*";
  if (c_type.ends_with(kConstPointers))
    return "*const " + raw_type(c_type.substr(0, c_type.size() - kConstPointers.size()));
  if (c_type.back() == '*') {
    const std::string pointed = c_type.substr(0, c_type.size() - 1);
    if (pointed.compare(0, kConst.size(), kConst) == 0)
      return "*const " + raw_type(pointed.substr(kConst.size()));
    return "*mut " + raw_type(pointed);
  }
  for (const auto& [c_name, name] : kTypes)
    if (c_name == c_type) return std::string(name);
  return c_type;
}

std::string raw_default(const CField& field) {
  if (field.name == "struct_size")
    return fmt::format("size_of::<{}>() as u32", field.initial.substr(7, field.initial.size() - 8));
  if (field.initial == "FA2_TENSOR_INIT") return "fa2_tensor::default()";
  if (field.type.back() == '*')
    return field.type.find("const") != std::string::npos ? "null()" : "null_mut()";
  return field.type == "float" ? field.initial + ".0" : field.initial;
}

std::string raw_struct(const DescribedStruct& described) {
  const bool has_pointers = described.name.find("Problem") == std::string::npos;
  std::string text = fmt::format("\nc_struct! {{\n    /// fa2::{}\n{}    pub struct {} {{\n", described.name,
                                 has_pointers ? "" : "    #[derive(PartialEq, Eq)]\n", described.c_name);
  for (const CField& field : described.fields)
    text += doc_lines(field.comment, "        ") +
            fmt::format("        pub {}: {} = {},\n", field.name, raw_type(field.type), raw_default(field));
  return text + "    }\n}\n";
}

std::string raw_structs() {
  std::string text = std::string(kBegin) +
                     "//! The structs of `include/fa2/c_call.h`.\n\n"
                     "use super::*;\n";
  for (const DescribedStruct& described : described_structs()) text += raw_struct(described);
  return text;
}

std::string raw_enumerators() {
  std::string text = std::string(kBegin) +
                     "//! The enumerators of `include/fa2/c_call.h`.\n\n"
                     "constants! { CALL_CONSTANTS:\n    FA2_OTHER_DTYPE = -1,\n";
  for (const ElementTypeNames& names : kElementTypes)
    text += fmt::format("    {} = {},\n", names.c_name, static_cast<int>(names.type));
  for (const CEnumerator& made : tensor_enumerators())
    text += fmt::format("    {} = {},\n", made.name, made.value);
  return text + "}\n";
}

// ---- the safe structs ----

template <class Value>
constexpr const char* kRustEnum = nullptr;
template <>
inline constexpr const char* kRustEnum<DType> = "DType";
template <>
inline constexpr const char* kRustEnum<KvType> = "KvType";
template <>
inline constexpr const char* kRustEnum<MaskKind> = "Mask";
template <>
inline constexpr const char* kRustEnum<EmptyRowLse> = "EmptyRowLse";
template <>
inline constexpr const char* kRustEnum<LseBase> = "LseBase";
template <>
inline constexpr const char* kRustEnum<Determinism> = "Determinism";
template <>
inline constexpr const char* kRustEnum<RotaryStyle> = "RotaryStyle";

/// A number of a call or a field of a problem, and the statements that put it into C structs.
struct Number {
  std::string name, type, initial, help;
  std::vector<std::pair<std::string, std::string>> statements = {};  ///< name of the C struct, statement
};

template <class Value>
Number number(std::string name, const RowText& row, const std::string& target, const Value& value) {
  const std::string field = c_name_of(row.name), to = fmt::format("{}.{}", target, field);
  const auto made = [&](std::string type, std::string initial, const std::string& statement) {
    return Number{name, std::move(type), std::move(initial), row.help, {{target, statement}}};
  };
  if constexpr (std::is_enum_v<Value>) {
    static_assert(kRustEnum<Value> != nullptr, "words.rs has an enum for each enumeration, named above");
    return made(kRustEnum<Value>, fmt::format("{}::default()", kRustEnum<Value>),
                fmt::format("{} = self.{} as i32", to, name));
  } else if constexpr (std::is_same_v<Value, bool>)
    return made("bool", value ? "true" : "false", fmt::format("{} = i32::from(self.{})", to, name));
  else if constexpr (kIsOptional<Value>)
    return made(std::is_same_v<Value, std::optional<float>> ? "Option<f32>" : "Option<i64>", "None",
                fmt::format("({}.has_{}, {}) = optional(self.{})", target, field, to, name));
  else if constexpr (std::is_floating_point_v<Value>)
    return made("f32", "0.0", fmt::format("{} = self.{}", to, name));
  else
    return made(fmt::format("{}{}", std::is_signed_v<Value> ? "i" : "u", 8 * sizeof(Value)),
                default_text(value), fmt::format("{} = self.{}", to, name));
}

/// Returns whether the row is a number of a call that no tensor tells.
bool is_option(const RowText& row) {
  constexpr std::string_view kOthers[] = {"empty_row_lse", "determinism", "rotary_style", "causal_positions"};
  return *row.option != 0 || std::find(std::begin(kOthers), std::end(kOthers), row.name) != std::end(kOthers);
}

/// Adds the numbers of Struct, which calls put into `target`. A float that a flag of the problem uses sets this flag.
template <class Struct>
void add_numbers(const std::string& target, std::vector<Number>& numbers) {
  const Struct initial;
  each_row<Struct>([&](const auto& row) {
    const auto& value = member_of(initial, row);
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value> || kIsOptional<Value>) {
      if (!is_option(row.text)) return;
      const std::string name = *row.text.option != 0 ? row.text.option : row.text.name;
      Number made = number(name, row.text, target, value);
      if constexpr (std::is_same_v<Value, std::int64_t>) {
        made.type = "Option<i64>", made.initial = "None";
        made.statements[0].second += ".unwrap_or(-1)";
      }
      if (std::is_same_v<Value, float> && *row.text.used_if != 0) {
        made.help += "; 0: none";
        made.statements.emplace_back(
            "problem", fmt::format("problem.{} = i32::from(self.{} != 0.0)", row.text.used_if, name));
      }
      numbers.push_back(std::move(made));
    }
  });
}

std::string problem_struct() {
  std::string fields, initial, statements;
  const AttentionProblem defaults;
  each_row<AttentionProblem>([&](const auto& row) {
    const Number made = number(row.text.name, row.text, "problem", member_of(defaults, row));
    fields += doc_lines(made.help, "    ") + fmt::format("    pub {}: {},\n", made.name, made.type);
    initial += fmt::format("            {}: {},\n", made.name, made.initial);
    statements += fmt::format("        {};\n", made.statements[0].second);
  });
  return kBegin + fmt::format(R"(use super::*;

/// What attention computes, with its sizes: for plans and precompilation. A call finds its problem from its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {{
{}}}

impl Default for Problem {{
    fn default() -> Self {{
        Self {{
{}        }}
    }}
}}

impl Problem {{
    pub(crate) fn raw(&self) -> sys::fa2_problem {{
        let mut problem = sys::fa2_problem::default();
{}        problem
    }}
}}
)",
                              fields, initial, statements);
}

/// Returns the functions that fill in C structs, one for each that `numbers` go into.
std::string setters(const std::vector<Number>& numbers, const std::string& operation) {
  const std::string prefix =
      operation == "append" || operation == "merge" ? "fa2_" + operation + "_" : "fa2_";
  const std::pair<std::string, std::string> targets[] = {
      {"problem", prefix + "problem"}, {"args", prefix + "args"}, {"backward", "fa2_backward_args"}};
  std::string text;
  for (const auto& [target, type] : targets) {
    std::string statements;
    for (const Number& made : numbers)
      for (const auto& [to, statement] : made.statements)
        if (to == target) statements += fmt::format("        {};\n", statement);
    if (!statements.empty())
      text += fmt::format("\n    pub(crate) fn set_{0}(&self, {0}: &mut sys::{1}) {{\n{2}    }}\n", target,
                          type, statements);
  }
  return text;
}

/// Returns the struct of one operation's calls. Its constructor takes the tensors that every call must give.
std::string call_struct(const std::string& name, const std::string& operation, const std::string& help,
                        const TensorTable& table, const std::vector<Number>& numbers) {
  std::string fields, parameters, initial, tensors;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    const bool is_required =
        (table.required >> i & 1) != 0 || (!tensor.text.is_optional && *tensor.text.used_if == 0);
    const std::string type = tensor.is_written ? "TensorMut<'a>" : "Tensor<'a>";
    std::string comment = fmt::format("{}; {}", tensor.text.help, tensor_text(tensor));
    if (*tensor.text.without != 0) comment += fmt::format("; not with {}", tensor.text.without);
    const std::string held = is_required ? type : fmt::format("Option<{}>", type);
    fields += doc_lines(comment, "    ") + fmt::format("    pub {}: {},\n", tensor.name(), held);
    if (is_required)
      parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", tensor.name(), type);
    initial += fmt::format("            {}{},\n", tensor.name(), is_required ? "" : ": None");
    tensors += fmt::format("            self.{}.raw(),\n", tensor.name());
  }
  for (const Number& made : numbers) {
    fields += doc_lines(made.help, "    ") + fmt::format("    pub {}: {},\n", made.name, made.type);
    initial += fmt::format("            {}: {},\n", made.name, made.initial);
  }
  return kBegin + fmt::format(R"(use super::*;

/// {1}
#[derive(Debug)]
pub struct {0}<'a> {{
{2}    /// where the call is enqueued; ignored on the interpreter
    pub stream: Stream,
}}

impl<'a> {0}<'a> {{
    /// Returns a call without optional tensors, whose numbers are the defaults.
    pub fn new({3}) -> Self {{
        Self {{
{4}            stream: Stream::default(),
        }}
    }}

    pub(crate) fn tensors(&self) -> [*const sys::fa2_array; {5}] {{
        [
{6}        ]
    }}
{7}}}
)",
                              name, help, fields, parameters, initial, table.tensors.size(), tensors,
                              setters(numbers, operation));
}

/// Returns the functions of scores of a call: a field of the problem and two of the arguments.
Number scores() {
  return {.name = "scores",
          .type = "Option<&'a Scores<'a>>",
          .initial = "None",
          .help = "functions of scores, and what they capture",
          .statements = {
              {"problem", "problem.score_text = self.scores.map_or(0, Scores::number)"},
              {"args",
               "(args.captures, args.capture_count) = self.scores.map_or((null(), 0), Scores::captures)"}}};
}

/// Returns the map of a call, which launches take instead of the arguments (src/calls/mod.rs).
Number block_map() {
  return {.name = "block_map",
          .type = "Option<&'a BlockMap>",
          .initial = "None",
          .help = "which blocks the mask of `scores` shows; optional with a mask",
          .statements = {{"args", "args.block_map = self.block_map.map_or(null(), |map| map.raw())"}}};
}

/// Returns the version that the map of a call must have.
Number block_map_version() {
  return {.name = "block_map_version",
          .type = "u64",
          .initial = "0",
          .help = "must be that of block_map; 0 without one",
          .statements = {{"args", "args.block_map_version = self.block_map_version"}}};
}

}  // namespace

std::map<std::string, std::string> rust_files() {
  std::vector<Number> attention, append, merge;
  add_numbers<AttentionProblem>("problem", attention);
  add_numbers<AttentionArgs>("args", attention);
  attention.insert(attention.end(), {scores(), block_map(), block_map_version()});
  std::vector<Number> backward = attention;
  add_numbers<BackwardArgs>("backward", backward);
  add_numbers<AppendProblem>("problem", append);
  add_numbers<MergeProblem>("problem", merge);
  add_numbers<MergeArgs>("args", merge);
  const std::string calls = "bindings/rust/src/calls/";
  const std::string sys = "bindings/rust/src/sys/";
  return {{sys + "call.rs", raw_structs()},
          {sys + "call_constants.rs", raw_enumerators()},
          {calls + "problem.rs", problem_struct()},
          {calls + "attention.rs",
           call_struct("Attention", "attention", "One call of attention: O = softmax(scale * Q K^T) V.",
                       kAttentionTable, attention)},
          {calls + "backward.rs",
           call_struct("Backward", "backward", "One call for those gradients of attention that are given.",
                       kBackwardTable, backward)},
          {calls + "append.rs",
           call_struct("Append", "append",
                       "One call that appends keys and values to a KV cache and applies rotary embedding.",
                       kAppendTable, append)},
          {calls + "merge.rs",
           call_struct(
               "Merge", "merge",
               "One call that merges attention over disjoint sets of keys into attention over all of them.",
               kMergeTable, merge)}};
}

}  // namespace fa2::test
