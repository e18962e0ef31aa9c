// Problems as JSON lines.
#include <api/problem_json.h>
#include <tools/problem_file.h>

namespace fa2::tools {

std::vector<PlannedProblem> parse_problems(std::string_view text, const std::string& origin) {
  std::vector<PlannedProblem> problems;
  parse_lines(text, origin, "problem", R"(must be a problem, as {"head_dim": 128, "seqlen_q": 4096})",
              [&](const nlohmann::json& object) {
                auto [problem, violations] = parse_problem(object);
                problems.push_back(problem);
                return violations;
              });
  return problems;
}

std::vector<PlannedProblem> read_problems(const std::filesystem::path& file) {
  return parse_problems(text_of_file(file), file.native());
}

}  // namespace fa2::tools
