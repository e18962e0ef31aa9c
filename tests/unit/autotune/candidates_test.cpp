// The configs that a search measures, and their order.
#include <autotune/candidates.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace fa2;
using namespace fa2::test;

TEST_CASE("distance: every tunable counts; doubling a size counts as one octave") {
  const KernelConfig config = default_config(KernelId::forward_sm90);
  CHECK(distance(config, config) == 0);
  KernelConfig other = config;
  KernelConfig::visit(other, [&](std::string_view name, std::int32_t& value) {
    CAPTURE(std::string(name));
    const std::int32_t before = value;
    value = before == 0 ? 1 : 2 * before;
    CHECK(distance(config, other) == distance(other, config));
    CHECK(distance(config, other) == doctest::Approx(before == 0 ? 0.25 : 1));
    value = before;
  });
  other.kernel = KernelId::forward_sm80;
  CHECK(distance(config, other) > 50);
}

TEST_CASE(
    "candidates: the heuristic's choice of each kernel, then configs of its first kernel, nearest first") {
  const PlannedProblem p = some_problem(128);
  const auto all = search_candidates(p, *find_arch("sm_90a"), TuneScope::all);
  const KernelKind& kind = kind_of(all[0]);
  std::set<const KernelKind*> named;
  const auto choices = heuristic_choices(p, *find_arch("sm_90a"));
  for (const HeuristicChoice& choice : choices) named.insert(&kind_of(choice.config));
  REQUIRE(named.size() > 1);
  for (std::size_t i = 0; i < named.size(); ++i) {
    CHECK(std::ranges::find(choices, all[i], &HeuristicChoice::config) != choices.end());
    for (std::size_t j = 0; j < i; ++j) CHECK(&kind_of(all[i]) != &kind_of(all[j]));
  }
  const auto others = std::span(all).subspan(named.size());
  CHECK(std::ranges::is_sorted(others, {}, [&](const KernelConfig& c) { return distance(c, all[0]); }));
  CHECK(std::ranges::is_partitioned(others, [&](const KernelConfig& c) { return &kind_of(c) == &kind; }));
  CHECK_FALSE(&kind_of(all.back()) == &kind);
}

TEST_CASE("candidates: some split the keys if there are few queries") {
  PlannedProblem p = some_problem(128);
  p.seqlen_q = 1;
  p.heads_kv = 4;
  const auto likely = search_candidates(p.normalized(), *find_arch("sm_90a"));
  for (const KernelId kernel : {KernelId::forward_split, KernelId::forward_sm90}) {
    CHECK(std::ranges::any_of(likely,
                              [&](const KernelConfig& c) { return c.kernel == kernel && splits_keys(c); }));
  }
}

TEST_CASE("candidates of the whole space: the likely ones, then every other valid config, each once") {
  for (const std::string name : {"sm_80", "sm_90"}) {
    const Arch& arch = *find_arch(name);
    const PlannedProblem p = some_problem(64);
    const auto likely = search_candidates(p, arch);
    const auto all = search_candidates(p, arch, TuneScope::all);
    const auto valid = config_space(traits_of(p), arch).valid;
    REQUIRE(all.size() > likely.size());
    CHECK(std::equal(likely.begin(), likely.end(), all.begin()));
    std::multiset<std::string> names;
    for (const KernelConfig& config : all) names.insert(to_string(config));
    for (const KernelConfig& config : valid) CHECK(names.count(to_string(config)) == 1);
    const bool guess_is_in_space = std::ranges::count(valid, all[0]) == 1;
    CHECK(all.size() == valid.size() + (guess_is_in_space ? 0 : 1));
  }
}

TEST_CASE("candidates: the heuristic's choice first, then valid ones, none twice") {
  for (const Arch& arch : known_archs()) {
    for (const int dim : {64, 128, 256}) {
      const PlannedProblem p = some_problem(dim);
      const auto candidates = search_candidates(p, arch);
      REQUIRE_FALSE(candidates.empty());
      CHECK(candidates.size() <= 24);
      CHECK(candidates[0] == heuristic(p, arch).config);
      for (const KernelConfig& config : candidates) {
        CHECK_FALSE(why_rejected({traits_of(p), config, arch}).has_value());
        CHECK(std::ranges::count(candidates, config) == 1);
      }
    }
  }
}

TEST_CASE("candidates of a pass: only its kernels, the heuristic's choice first") {
  for (const std::string name : {"sm_80", "sm_90a"}) {
    const Arch& arch = *find_arch(name);
    const PlannedProblem p = some_problem(64);
    for (const KernelPass pass : kBackwardPasses) {
      const auto first = heuristic_choices(p, arch, pass);
      if (first.empty()) {  // the kernel runs on another GPU, or another kernel determines its config
        CHECK_FALSE(can_be_tuned(traits_of(p), arch, pass));
        continue;
      }
      const auto valid = config_space(traits_of(p), arch, pass).valid;
      const auto all = search_candidates(p, arch, TuneScope::all, pass);
      CHECK(all.at(0) == first.at(0).config);
      for (const KernelConfig& config : all) CHECK(pass_of(config) == pass);
      for (const KernelConfig& config : valid) CHECK(std::ranges::count(all, config) == 1);
      CHECK(search_candidates(p, arch, TuneScope::likely, pass).size() ==
            std::min<std::size_t>(24, all.size()));
      const bool has_one = pass == KernelPass::delta || pass == KernelPass::ordered_dq_dk_dv;
      CHECK(can_be_tuned(traits_of(p), arch, pass) == !has_one);
    }
    CHECK(can_be_tuned(traits_of(p), arch, KernelPass::forward));
  }
}
