// Files of requests, which programs log and packs are made from.
#include <api/requests.h>
#include <fa2/errors.h>
#include <operation/rules/validate.h>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  PlanRequest request;
  request.problem = PlannedProblem({.head_dim = 64, .seqlen_q = 8, .seqlen_k = 8}, {}).normalized();
  request.target = {*find_arch("sm_90a"), "NVIDIA H100", 132};
  std::vector<std::string> texts;
  for (const auto& [operation, word] : kWords<Operation>) {
    request.operation = operation;
    texts.push_back(to_json_line(request) + "\n");
  }
  texts.push_back(texts[0] + "\n" + texts[1]);
  return texts;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  try {
    for (const PlanRequest& request : parse_requests(fuzz::text_of(data, size), "fuzz")) {
      fuzz::require(violations_of(request.problem).empty(), "a problem that is accepted is valid");
      const auto again = parse_requests(to_json_line(request), "again");
      fuzz::require(again.size() == 1 && to_json_line(again[0]) == to_json_line(request),
                    "a printed request is parsed to the same");
    }
  } catch (const InvalidRequest& error) {
    fuzz::require(!error.violations().empty(), "an error says what is wrong");
  }
  return 0;
}
