// Problems to JSON and back.
#include <api/problem_json.h>
#include <core/text.h>
#include <operation/rules/validate.h>
#include <runtime/file.h>
#include <runtime/json_field.h>

#include <cerrno>
#include <sstream>
#include <string_view>

namespace fa2 {
namespace {

std::string unknown_field(std::string_view name) {
  std::vector<std::string_view> fields;
  const PlannedProblem problem;
  PlannedProblem::visit([&](const char* field, FieldRole, const auto&) { fields.emplace_back(field); },
                        problem);
  const std::string_view meant = nearest(name, fields);
  return "must be a field of a problem" + (meant.empty() ? "" : fmt::format(": did you mean {}?", meant));
}

}  // namespace

std::pair<PlannedProblem, std::vector<Violation>> parse_problem(const nlohmann::json& object) {
  PlannedProblem problem;
  std::vector<Violation> found;
  for (const auto& [key, value] : object.items()) {
    std::string wrong = unknown_field(key);
    PlannedProblem::visit(
        [&, &key = key, &value = value](const std::string_view name, FieldRole, auto& field) {
          if (name != key) return;
          if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::int64_t>) {
            if (name == "score_text") {
              wrong = set_score_text(field, value);
              return;
            }
          }
          wrong = set_from_json(field, value);
        },
        problem);
    if (!wrong.empty()) found.push_back({key, value.dump(), wrong});
  }
  if (found.empty()) found = violations_of(problem);
  return {problem.normalized(), std::move(found)};
}

void parse_lines(std::string_view text, const std::string& origin, std::string_view noun,
                 std::string_view line_rule,
                 const std::function<std::vector<Violation>(const nlohmann::json&)>& take) {
  std::vector<Violation> found;
  std::istringstream lines{std::string(text)};
  std::string line;
  bool is_empty = true;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    is_empty = false;
    const std::string place = fmt::format("{}:{}", origin, number);
    const nlohmann::json object = parse_json(line);
    if (!object.is_object()) {
      found.push_back({place, in_quotes(line), std::string(line_rule)});
      continue;
    }
    for (auto& [field, value, rule] : take(object))
      found.push_back({fmt::format("{}: {}", place, field), std::move(value), std::move(rule)});
  }
  if (is_empty) found.push_back({origin, "empty", fmt::format("must have one {} per line", noun)});
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

std::string text_of_file(const std::filesystem::path& file) {
  const auto bytes = read_file(file);
  if (!bytes) throw_file_error("cannot read", file, ENOENT);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

}  // namespace fa2
