// Each new plan is one line of the log at debug level.
#include <doctest/doctest.h>
#include <fa2/backward.h>
#include <fa2/log.h>
#include <runtime/device.h>
#include <tests/support/gpu_attention.h>

#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the lines logged while `body` runs that begin with `start`.
template <class Body>
std::vector<std::string> logged(const std::string& start, const Body& body) {
  const LogLevel level = log_level();
  std::vector<std::string> lines;
  set_log([&](LogLevel, std::string_view text) {
    if (text.starts_with(start)) lines.emplace_back(text);
  });
  set_log_level(LogLevel::debug);
  body();
  set_log({});
  set_log_level(level);
  return lines;
}

}  // namespace

TEST_CASE("a new plan logs one line with each kernel, who chose it and why; a known plan logs none") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 64, 77, 129);
  const auto forward = logged("plan of ", [&] {
    for (int i = 0; i < 2; ++i) context.plan(problem, device_under_test());
  });
  REQUIRE(forward.size() == 1);
  const KernelReport kernel = context.plan(problem, device_under_test()).explain().kernels.at(0);
  CHECK(forward[0].find(to_string(kernel.config) + ", heuristic (" + kernel.config_reason + "), ") !=
        std::string::npos);

  const auto backward = logged("backward plan of ", [&] {
    for (int i = 0; i < 2; ++i) context.backward_plan(problem, device_under_test(), {});
  });
  REQUIRE(backward.size() == 1);
  const Explanation explanation = context.backward_plan(problem, device_under_test(), {}).explain();
  CHECK(explanation.kernels.size() > 1);
  for (const KernelReport& report : explanation.kernels)
    CHECK(backward[0].find(to_string(report.config) + ", " + std::string(to_string(report.config_origin)) +
                           " (") != std::string::npos);
}
