// Requests: what a program logs is what a pack is made from.
#include <api/requests.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/file.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/temporary_directory.h>

#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

PlanRequest request_of(Operation operation, const AttentionProblem& problem) {
  PlanRequest request;
  request.operation = operation;
  request.problem = PlannedProblem(problem, {}).normalized();
  request.target = {*find_arch("sm_90a"), "NVIDIA H100", 132};
  return request;
}

std::string complaint(const std::string& line) {
  try {
    parse_requests(line, "r");
    return "";
  } catch (const InvalidRequest& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("requests: every operation is read as it was written") {
  std::string text;
  std::vector<PlanRequest> all;
  for (const auto& [operation, word] : kWords<Operation>) {
    PlanRequest request =
        request_of(operation, {.head_dim = 128, .window_left = 5, .seqlen_q = 7, .seqlen_k = 9});
    request.gradients.dq = operation != Operation::backward;
    all.push_back(request);
    text += to_json_line(request) + "\n\n" + to_json_line(request) + "\n";  // each one once
  }
  const std::vector<PlanRequest> read = parse_requests(text, "r");
  REQUIRE(read.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(to_json_line(read[i]) == to_json_line(all[i]));
  CHECK_FALSE(read[1].gradients.dq);
  CHECK(read[0].target.device == "NVIDIA H100");
  CHECK(read[0].problem == all[0].problem);
}

TEST_CASE("requests: an error lists what is wrong with every line") {
  const std::string problem = R"("problem": {"head_dim": 64, "seqlen_q": 8, "seqlen_k": 8})";
  CHECK(complaint(R"({"arch": "sm_80", )" + problem + "}") == "");
  CHECK(complaint("").find("must have one request per line") != std::string::npos);
  const std::string all = complaint(
      "nonsense\n"
      R"({"operation": "forwards", "arch": "sm_1", "device": 5, "sm_count": -1e9, "size": 3})"
      "\n"
      R"({"arch": "sm_80", "problem": {"head_dim": 63, "heads": 3}})"
      "\n"
      R"({"arch": "sm_80", "problem": 7, "gradients": []})");
  for (const char* part : {"r:1", "r:2: operation", "r:2: arch", "r:2: device", "r:2: sm_count", "r:2: size",
                           "r:2: problem", "r:3: heads", "r:4: problem", "r:4: gradients"}) {
    CAPTURE(all);
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
  CHECK(complaint(R"({"operation": "backward", "arch": "sm_80", "gradients": {"dq": 1, "dx": true}, )" +
                  problem + "}")
            .find("gradients: dx") != std::string::npos);
}

TEST_CASE("requests: the log has each request once per process, and processes share it") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory / "requests.jsonl";
  const PlanRequest one = request_of(Operation::forward, {.head_dim = 64}),
                    two = request_of(Operation::merge, {.head_dim = 64});
  RequestLog first(file), second(file), none(std::nullopt);
  for (int i = 0; i < 3; ++i) first.add(one), none.add(two);
  first.add(two);
  second.add(one);
  CHECK(read_text(file) == to_json_line(one) + "\n" + to_json_line(two) + "\n" + to_json_line(one) + "\n");
  CHECK(read_requests(file).size() == 2);
  CHECK_THROWS_AS(read_requests(directory / "none"), FileError);
}

TEST_CASE("requests: a log that cannot be written costs one warning") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  RequestLog unwritable(directory / "no" / "file"), folder(directory.path());
  for (int i = 1; i < 4; ++i) {
    unwritable.add(request_of(Operation::forward, {.head_dim = 8 * i}));
    folder.add(request_of(Operation::forward, {.head_dim = 8 * i}));
  }
  CHECK(log.lines() == 2);
  CHECK(log.has("requests are not logged: "));
}
