// The layout of tiles in shared memory: no head dim, tile size or operand has bank conflicts.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <utility>
#include <vector>

#include "../support/captured_log.h"
#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("kernels for aligned rows have no bank conflicts") {
  if (cannot_run() || cannot_count_bank_conflicts()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  std::vector<AttentionProblem> problems;
  for (const auto& [d, dv] : std::vector<std::pair<int, int>>{{8, 16}, {32, 48}, {72, 40}, {112, 128}})
    problems.push_back({.head_dim = d, .head_dim_v = dv, .seqlen_q = 130, .seqlen_k = 100});
  precompile(context, problems);
  for (const AttentionProblem& problem : problems) {
    CapturedLog logged;
    log().set_level(spdlog::level::info);
    run_and_expect_contract(context, GuardedCall(problem));
    CHECK_MESSAGE(!logged.has("bank conflict"), logged.text());
  }
}
