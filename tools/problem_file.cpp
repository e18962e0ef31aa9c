// Problems as JSON lines.
#include <api/problem_json.h>
#include <core/text.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <runtime/json_field.h>
#include <tools/problem_file.h>

#include <cerrno>
#include <sstream>
#include <utility>

namespace fa2::tools {
std::vector<PlannedProblem> parse_problems(std::string_view text, const std::string& origin) {
  std::vector<PlannedProblem> problems;
  std::vector<Violation> found;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", origin, number);
    const nlohmann::json object = parse_json(line);
    if (!object.is_object()) {
      found.push_back(
          {place, in_quotes(line), R"(must be a problem, as {"head_dim": 128, "seqlen_q": 4096})"});
      continue;
    }
    auto [problem, violations] = parse_problem(object);
    for (auto& [field, value, rule] : violations)
      found.push_back({fmt::format("{}: {}", place, field), std::move(value), std::move(rule)});
    problems.push_back(problem);
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
