// Which kernels a program is likely to need next.
#include <api/compile_ahead.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <planning/backward.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace fa2;

namespace {

struct Fixture {
  std::vector<KernelRequest> after(const AttentionProblem& problem, bool keeps_lse) {
    return likely_next({Operation::forward, PlannedProblem(problem, {}), {}, target}, keeps_lse, chooser);
  }
  KernelConfig config_for(AttentionProblem problem, std::int64_t batch, std::int64_t queries,
                          std::int64_t keys) {
    problem.batch = batch;
    problem.seqlen_q = queries;
    problem.seqlen_k = keys;
    return chooser.choose(PlannedProblem(problem, {}), target).config;
  }
  ChoiceSettings settings{.tune = TuneMode::off};
  TuningStore store{""};
  ConfigChooser chooser{settings, store};
  Target target{*find_arch("sm_90a"), "Some GPU", 132};
};

AttentionProblem prompt() {
  return {.dtype = DType::bf16,
          .head_dim = 128,
          .mask = MaskKind::causal_bottom_right,
          .heads_q = 28,
          .heads_kv = 4,
          .seqlen_q = 137,
          .seqlen_k = 137};
}

bool has(const std::vector<KernelRequest>& kernels, const KernelConfig& config) {
  return std::ranges::any_of(kernels,
                             [&](const KernelRequest& kernel) { return kernel.choice.config == config; });
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "compile ahead: after a prompt, the kernel of single queries comes first") {
  const auto kernels = after(prompt(), false);
  REQUIRE(kernels.size() > 2);
  CHECK(kernels[0].choice.config == config_for(prompt(), 1, 1, 137));
  CHECK(kernels[0].choice.config != config_for(prompt(), 1, 137, 137));
}

TEST_CASE_FIXTURE(Fixture, "compile ahead: after a prompt, calls of any size find their kernel") {
  const auto kernels = after(prompt(), false);
  for (const std::int64_t batch : {1, 4, 64}) {
    for (const std::int64_t keys : {1, 333, 3000, 100000}) {
      for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{5}, keys})
        CHECK(has(kernels, config_for(prompt(), batch, queries, keys)));
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "compile ahead: a call that keeps the LSE is followed by its backward") {
  const auto kernels = after(prompt(), true);
  Planner planner{
      .problem = PlannedProblem(prompt(), {}),
      .target = target,
      .chooser = chooser,
      .get = [](const KernelSpec&) { return LoadedKernel(); },
      .alternatives = [](const PlannedProblem&, const ConfigChoice&) { return std::vector<ConfigChoice>(); }};
  std::string notes;
  const auto wanted = backward_kernels(planner, {}, notes);
  REQUIRE_FALSE(wanted.empty());
  for (const LoadedKernel& kernel : wanted) CHECK(has(kernels, kernel.report.config));
  CHECK(std::ranges::none_of(kernels, [](const KernelRequest& kernel) {
    return pass_of(kernel.choice.config) == KernelPass::forward;
  }));
}

TEST_CASE_FIXTURE(Fixture, "compile ahead: where there is no backward, the LSE means nothing") {
  AttentionProblem paged = prompt();
  paged.varlen = true;
  paged.page_size = 16;
  paged.page_count = 100;
  const auto kernels = after(paged, true);
  REQUIRE_FALSE(kernels.empty());
  for (const KernelRequest& kernel : kernels) CHECK(pass_of(kernel.choice.config) == KernelPass::forward);
}
