// Which kernels a forward over 8-bit keys launches, and whose tuning records it uses.
#include <autotune/candidates.h>
#include <doctest/doctest.h>
#include <planning/forward.h>
#include <planning/widened_keys.h>
#include <tests/support/tuning_record.h>

#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

PlannedProblem over_bytes(std::int64_t queries) {
  return PlannedProblem({.head_dim = 128,
                         .kv_type = KvType::e4m3,
                         .batch = 4,
                         .heads_q = 32,
                         .heads_kv = 8,
                         .seqlen_q = queries,
                         .seqlen_k = 4096},
                        {})
      .normalized();
}

/// Returns latents of 8 bits, which 16 heads read.
PlannedProblem over_byte_latents(std::int64_t queries, KvType kv_type) {
  return PlannedProblem({.dtype = DType::bf16,
                         .head_dim = 576,
                         .head_dim_v = 512,
                         .kv_type = kv_type,
                         .values_in_keys = true,
                         .batch = 4,
                         .heads_q = 16,
                         .heads_kv = 1,
                         .seqlen_q = queries,
                         .seqlen_k = 4096},
                        {})
      .normalized();
}

/// Makes planners whose kernels are only named.
struct Fixture {
  Planner planner(const PlannedProblem& problem) {
    Planner planner{.problem = problem, .target = hopper, .chooser = chooser, .get = {}, .alternatives = {}};
    planner.get = [this](const KernelSpec& spec) {
      traits.push_back(to_string(spec.traits));
      return LoadedKernel();
    };
    return planner;
  }

  Target hopper{*find_arch("sm_90a"), "GPU A", 132};
  ChoiceSettings settings{.tune = TuneMode::stored};
  TuningStore store{""};
  ConfigChooser chooser{settings, store};
  std::vector<std::string> traits;  ///< of the kernels that were asked for
};

/// Returns a report that `best` is faster than the heuristic's config, which comes first.
TuneReport report_of(const std::vector<KernelConfig>& candidates, std::size_t best) {
  TuneReport report;
  report.best = candidates.at(best);
  report.best_us = 80;
  report.heuristic_us = 100;
  report.candidates = {{candidates[best], 80, 15, ""}, {candidates[0], 100, 15, ""}};
  return report;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "widened keys: two kernels where many queries read each key, else one") {
  const auto kernels = forward_kernels(planner(over_bytes(512)));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].report.config.kernel == KernelId::widen);
  CHECK(kernels[1].report.config.kernel == KernelId::forward_sm90);
  REQUIRE(traits.size() == 2);
  CHECK(traits[0].find("kv_type_e4m3") != std::string::npos);
  CHECK(traits[1].find("kv_type_scaled") != std::string::npos);
  CHECK(forward_kernels(planner(over_bytes(1))).size() == 1);
  CHECK(traits.back().find("kv_type_e4m3") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "widened keys: those of wide heads are not, because their kernels widen them") {
  for (const KvType kv_type : {KvType::e4m3, KvType::ds_mla}) {
    for (const std::int64_t queries : {1, 512}) {
      const PlannedProblem p = over_byte_latents(queries, kv_type);
      const auto kernels = forward_kernels(planner(p));
      REQUIRE(kernels.size() == 1);
      CHECK(kernels[0].report.config.kernel ==
            (queries == 1 ? KernelId::forward_wide : KernelId::forward_wide_sm90));
      CHECK(tuned_problem(p, hopper, chooser) == p);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "widened keys: the problem that is tuned is that of the plan's second step") {
  CHECK(tuned_problem(over_bytes(512), hopper, chooser) == widened_problem(over_bytes(512)));
  CHECK(tuned_problem(over_bytes(1), hopper, chooser) == over_bytes(1));
  CHECK(tuned_problem(over_bytes(512), some_gpu(), chooser) == over_bytes(512));
  PlannedProblem invariant = over_bytes(512);
  invariant.batch_invariant = true;
  CHECK(tuned_problem(invariant, hopper, chooser) == invariant);
  const PlannedProblem wide = some_problem();
  CHECK(tuned_problem(wide, hopper, chooser) == wide);
}

TEST_CASE_FIXTURE(Fixture, "widened keys: what tuning finds is what plans run, in one step or in two") {
  for (const std::int64_t queries : {1, 512}) {
    const PlannedProblem p = over_bytes(queries), tuned = tuned_problem(p, hopper, chooser);
    const auto candidates = search_candidates(tuned, hopper.arch);
    REQUIRE(candidates.size() > 1);
    CHECK(forward_kernels(planner(p)).back().report.config == candidates[0]);
    const TuneReport report = chooser.tune(
        tuned, hopper, [&](const PlannedProblem&) { return report_of(candidates, candidates.size() - 1); });
    CHECK(report.problem == tuned);
    const KernelReport found = forward_kernels(planner(p)).back().report;
    CHECK(found.config == candidates.back());
    CHECK(found.config_origin == ConfigOrigin::tuned_exact);
  }
}
