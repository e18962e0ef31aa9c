// Problems to JSON and back.
#include <api/problem_json.h>
#include <core/text.h>
#include <operation/rules/validate.h>

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
          if (name == key) wrong = set_from_json(field, value);
        },
        problem);
    if (!wrong.empty()) found.push_back({key, value.dump(), wrong});
  }
  if (found.empty()) found = violations_of(problem);
  return {problem.normalized(), std::move(found)};
}

}  // namespace fa2
