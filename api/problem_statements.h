// A problem as statements, which ranks compare.
#pragma once

#include <api/problem_json.h>
#include <parallel/agreement.h>

#include <vector>

namespace fa2 {

/// Returns a statement per field. Texts of scores are there by content.
inline std::vector<Statement> statements_of(const PlannedProblem& problem) {
  std::vector<Statement> statements;
  const nlohmann::ordered_json fields = fields_of(problem);
  for (const auto& [name, value] : fields.items()) statements.push_back({name, value.dump()});
  return statements;
}

}  // namespace fa2
