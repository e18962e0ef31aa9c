// Files of problems.
#include <api/explanation.h>
#include <fa2/errors.h>
#include <operation/rules/validate.h>
#include <tools/problem_file.h>

#include <nlohmann/json.hpp>

#include "fuzz.h"

namespace fa2::fuzz {
namespace {

std::string line_of(const PlannedProblem& problem) {
  return nlohmann::json::parse(to_json(problem)).dump() + "\n";
}

}  // namespace

std::vector<std::string> seeds() {
  PlannedProblem windows({.head_dim = 128, .batch = 2, .heads_q = 8, .seqlen_q = 100, .seqlen_k = 200}, {});
  windows.window_left = 64;
  return {
      line_of(PlannedProblem({.head_dim = 64, .seqlen_q = 8, .seqlen_k = 8}, {}).normalized()),
      line_of(windows.normalized()),
      R"({"dtype": "bf16", "head_dim": 128, "mask": "causal_bottom_right", "heads_q": 32, "seqlen_q": 4096, "seqlen_k": 4096})"
      "\n\n"
      R"({"head_dim": 64, "seqlen_q": 1, "seqlen_k": 1})"};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  try {
    for (const PlannedProblem& problem : tools::parse_problems(fuzz::text_of(data, size), "fuzz")) {
      fuzz::require(violations_of(problem).empty(), "a problem that is accepted is valid");
      const auto again = tools::parse_problems(fuzz::line_of(problem), "again");
      fuzz::require(again.size() == 1 && again[0] == problem, "a printed problem is parsed to the same");
    }
  } catch (const InvalidRequest& error) {
    fuzz::require(!error.violations().empty(), "an error says what is wrong");
  }
  return 0;
}
