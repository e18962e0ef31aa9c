// Problems as JSON lines. Everything derives from PlannedProblem::visit.
#include <core/enum_words.h>
#include <core/text.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>
#include <runtime/file.h>
#include <tools/problem_file.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>
#include <utility>

namespace fa2::tools {
namespace {

using nlohmann::json;

/// Returns whether a JSON number is an integer that Value can hold.
template <class Value>
bool fits(const json& value) {
  if (value.is_number_unsigned()) return std::in_range<Value>(value.get<std::uint64_t>());
  return value.is_number_integer() && std::in_range<Value>(value.get<std::int64_t>());
}

/// Sets `field`. Returns what the value must be; empty if it was valid.
template <class Value>
std::string set(Value& field, const json& value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto named = enumerator_of<Value>(value.is_string() ? value.get<std::string>() : "");
    field = named.value_or(field);
    return named ? "" : fmt::format("must be one of {}", joined_words<Value>());
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (!value.is_boolean()) return "must be true or false";
    field = value.get<bool>();
  } else if constexpr (kIsOptional<Value>) {
    if (!value.is_null()) return set(field.emplace(), value);
    field.reset();
  } else {
    if (!fits<Value>(value)) return fmt::format("must be an integer of {} bits", 8 * sizeof(Value));
    field = value.get<Value>();
  }
  return "";
}

std::string unknown_field(std::string_view name) {
  std::vector<std::string_view> fields;
  const PlannedProblem problem;
  PlannedProblem::visit([&](const char* field, FieldRole, const auto&) { fields.emplace_back(field); },
                        problem);
  const std::string_view meant = nearest(name, fields);
  return "must be a field of a problem" + (meant.empty() ? "" : fmt::format(": did you mean {}?", meant));
}

/// Returns the problem of one line, and what is wrong with it.
std::pair<PlannedProblem, std::vector<Violation>> parse_problem(const json& object) {
  PlannedProblem problem;
  std::vector<Violation> found;
  for (const auto& [key, value] : object.items()) {
    std::string wrong = unknown_field(key);
    PlannedProblem::visit(
        [&, &key = key, &value = value](const std::string_view name, FieldRole, auto& field) {
          if (name == key) wrong = set(field, value);
        },
        problem);
    if (!wrong.empty()) found.push_back({key, value.dump(), wrong});
  }
  if (found.empty()) found = violations_of(problem);
  return {problem, std::move(found)};
}

}  // namespace

std::vector<PlannedProblem> parse_problems(std::string_view text, const std::string& origin) {
  std::vector<PlannedProblem> problems;
  std::vector<Violation> found;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", origin, number);
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) {
      found.push_back(
          {place, in_quotes(line), R"(must be a problem, as {"head_dim": 128, "seqlen_q": 4096})"});
      continue;
    }
    auto [problem, violations] = parse_problem(object);
    for (auto& [field, value, rule] : violations)
      found.push_back({fmt::format("{}: {}", place, field), std::move(value), std::move(rule)});
    problems.push_back(problem.normalized());
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
  if (problems.empty()) throw InvalidRequest({{origin, "empty", "must have one problem per line"}});
  return problems;
}

std::vector<PlannedProblem> read_problems(const std::filesystem::path& file) {
  const auto bytes = read_file(file);
  if (!bytes) throw_file_error("cannot read", file, ENOENT);
  return parse_problems({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, file.native());
}

}  // namespace fa2::tools
