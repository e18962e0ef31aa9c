// The text of InvalidProblem.
#include <fa2/errors.h>
#include <fmt/format.h>

namespace fa2 {
namespace {

std::string message_of(const std::vector<Violation>& violations) {
  std::string text =
      fmt::format("invalid request, {} rule{} broken:", violations.size(), violations.size() == 1 ? "" : "s");
  for (const Violation& v : violations) text += fmt::format("\n  {} = {}, {}", v.field, v.value, v.rule);
  return text;
}

}  // namespace

InvalidProblem::InvalidProblem(std::vector<Violation> violations)
    : Error(ErrorCode::invalid_problem, message_of(violations)), violations_(std::move(violations)) {}

}  // namespace fa2
