// The heuristic's configs for a backward: each pass has valid ones, for every problem and GPU.
#include <autotune/cached_choices.h>
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>
#include <tests/support/mma_configs.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr KernelPass kPasses[] = {KernelPass::delta, KernelPass::dq, KernelPass::dk_dv, KernelPass::dk,
                                  KernelPass::dv};

PlannedProblem problem_of(int head_dim, int head_dim_v) {
  PlannedProblem p({.head_dim = head_dim, .head_dim_v = head_dim_v, .heads_q = 8, .heads_kv = 2}, {});
  p.mask = MaskKind::causal_bottom_right;
  p.seqlen_q = p.seqlen_k = 4096;
  return p.normalized();
}

std::vector<Arch> archs() {
  std::vector<Arch> all(known_archs().begin(), known_archs().end());
  all.push_back(interpreter_arch());
  return all;
}

/// CHECKs that there are choices and that each is valid. Only dK and dV in one kernel may have none.
void check_choices(const PlannedProblem& problem, KernelPass pass, const Arch& arch) {
  const std::vector<HeuristicChoice> choices = heuristic_choices(problem, arch, pass);
  const std::string text = to_string(problem) + ", pass " + std::to_string(static_cast<int>(pass)) + " on " +
                           std::string(arch.name);
  CHECK_MESSAGE((!choices.empty() || pass == KernelPass::dk_dv), text);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const KernelConfig& config = choices[i].config;
    const std::string broken = why_rejected(problem, config, arch).value_or("");
    CHECK_MESSAGE(broken.empty(), text, ": ", broken);
    CHECK_MESSAGE(pass_of(config) == pass, text);
    CHECK_FALSE(choices[i].reason.empty());
    const auto is_same = [&](const HeuristicChoice& other) { return other.config == config; };
    CHECK_MESSAGE(std::ranges::count_if(choices, is_same) == 1, text, ": twice ", to_string(config));
  }
}

bool keys_fit(int head_dim, const Arch& arch) {
  return !heuristic_choices(problem_of(head_dim, head_dim), arch, KernelPass::dk_dv).empty();
}

/// Returns the first choice.
KernelConfig guess(KernelPass pass) {
  return heuristic_choices(problem_of(64, 64), some_gpu().arch, pass).at(0).config;
}

/// Returns a valid config that the heuristic does not choose.
KernelConfig another(KernelPass pass) {
  return config_on_every_gpu(pass);
}

std::string spec_of(const KernelConfig& config) {
  return render({traits_of(problem_of(64, 64)), config, some_gpu().arch}).spec;
}

/// Returns the cached configs that may replace `wanted`, best first.
std::vector<KernelConfig> serving(const KernelConfig& wanted, const std::vector<std::string>& cached) {
  const ConfigChoice choice{wanted, ConfigOrigin::heuristic, "", std::nullopt};
  std::vector<KernelConfig> configs;
  for (const ConfigChoice& other : cached_choices(choice, {}, cached, problem_of(64, 64), some_gpu().arch))
    configs.push_back(other.config);
  return configs;
}

}  // namespace

TEST_CASE("backward heuristic: every pass of every head dim has valid choices on every arch") {
  for (const Arch& arch : archs()) {
    for (const KernelPass pass : kPasses) {
      for (int dim = 8; dim <= 256; dim += 8) {
        check_choices(problem_of(dim, dim), pass, arch);
        check_choices(problem_of(dim, 256), pass, arch);
        check_choices(problem_of(256, dim), pass, arch);
      }
    }
  }
}

TEST_CASE("backward heuristic: every variant and alignment has choices too") {
  for (const RowAlignment alignment :
       {RowAlignment::bytes16, RowAlignment::bytes16_any_order, RowAlignment::element}) {
    for (int variants = 0; variants < 32; ++variants) {
      PlannedProblem p(problem_of(128, 128), {alignment});
      if (variants & 1) p.window_left = 500;
      p.softcap = variants & 2, p.alibi = variants & 4, p.sinks = variants & 8;
      p.dropout = variants & 16;
      for (const KernelPass pass : kPasses) check_choices(p, pass, some_gpu().arch);
    }
  }
}

TEST_CASE("backward heuristic: dK and dV are computed together up to head dim 128, and not at 256") {
  for (const Arch& arch : archs()) {
    INFO(arch.name);
    CHECK_FALSE(keys_fit(256, arch));
    for (int dim = 8; dim <= 256; dim += 8) {
      if (dim <= 128) CHECK(keys_fit(dim, arch));
      if (dim > 8 && keys_fit(dim, arch)) CHECK(keys_fit(dim - 8, arch));  // monotonic in the head dim
    }
  }
}

TEST_CASE("backward heuristic: there is a kernel for the sinks' gradient if there are sinks") {
  PlannedProblem p = problem_of(64, 64);
  for (const Arch& arch : archs()) {
    p.sinks = false;
    CHECK(heuristic_choices(p, arch, KernelPass::d_sinks).empty());
    p.sinks = true;
    check_choices(p, KernelPass::d_sinks, arch);
  }
}

TEST_CASE("backward heuristic: packed sequences use the kernels of batched ones") {
  for (const std::int32_t dim : {64, 128, 256}) {
    const PlannedProblem batched = problem_of(dim, dim);
    PlannedProblem packed = batched;
    packed.varlen = true, packed.total_q = packed.total_k = 1000;
    for (const KernelPass pass : kPasses) {
      const auto expected = heuristic_choices(batched, some_gpu().arch, pass),
                 choices = heuristic_choices(packed, some_gpu().arch, pass);
      REQUIRE(choices.size() == expected.size());
      for (std::size_t i = 0; i < choices.size(); ++i) CHECK(choices[i].config == expected[i].config);
    }
  }
}

TEST_CASE("a pinned config of the backward pins only its own pass") {
  ChoiceSettings settings;
  settings.tune = TuneMode::off;
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  const PlannedProblem problem = problem_of(64, 64);
  for (const KernelPass pinned : kPasses) {
    if (pinned == KernelPass::delta) continue;  // delta has only one kernel
    settings.pinned = another(pinned);
    ConfigChooser chooser(settings, store);
    for (const KernelPass pass : kPasses) {
      const bool has_part_pinned = pinned == KernelPass::dk || pinned == KernelPass::dv;
      if (pass == KernelPass::dk_dv && has_part_pinned) {
        CHECK_FALSE(
            chooser.has_kernel(problem, some_gpu(), pass));  // otherwise the pinned kernel would not run
        continue;
      }
      CHECK(chooser.has_kernel(problem, some_gpu(), pass));
      const ConfigChoice choice = chooser.choose(problem, some_gpu(), {}, pass);
      const bool is_pinned = pass == pinned;
      const bool is_alone = ConfigChooser::alternatives(choice, problem, some_gpu()).empty();
      CHECK(is_alone == (is_pinned || pass == KernelPass::delta));
      CHECK(choice.config == (is_pinned ? another(pass) : guess(pass)));
      CHECK(choice.origin == (is_pinned ? ConfigOrigin::pinned : ConfigOrigin::heuristic));
      CHECK((choice.reason == "pinned by FA2_CONFIG") == is_pinned);
    }
    CHECK(chooser.choose(problem, some_gpu()).origin == ConfigOrigin::heuristic);
    // Precompiling makes only the pinned kernel.
    const std::vector<PossibleChoice> every = chooser.every_choice(problem, some_gpu());
    REQUIRE(every.size() == 1);
    CHECK(every[0].choice.config == another(pinned));
  }
}

TEST_CASE("a pinned config of the forward leaves the backward to the heuristic") {
  ChoiceSettings settings;
  settings.pinned = KernelConfig{};
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  CHECK(chooser.choose(problem_of(64, 64), some_gpu()).origin == ConfigOrigin::pinned);
  for (const KernelPass pass : kPasses) {
    const ConfigChoice choice = chooser.choose(problem_of(64, 64), some_gpu(), {}, pass);
    CHECK(choice.config == guess(pass));
    CHECK(choice.origin == ConfigOrigin::heuristic);
  }
}

TEST_CASE("a pinned config of the backward must be able to compute the problem") {
  ChoiceSettings settings;
  settings.pinned = another(KernelPass::dq);
  settings.pinned->tile_m = 40;
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  CHECK_THROWS_WITH_AS(chooser.choose(problem_of(64, 64), some_gpu(), {}, KernelPass::dq),
                       doctest::Contains("tile_m = 40"), InvalidRequest);
  CHECK(chooser.choose(problem_of(64, 64), some_gpu(), {}, KernelPass::dk).config == guess(KernelPass::dk));
}

TEST_CASE("a cached kernel never replaces the kernel of another pass") {
  const KernelConfig forward, other_forward{.tile_m = 128, .warps = 8};
  std::vector<std::string> backward;
  for (const KernelPass pass : kPasses) backward.push_back(spec_of(another(pass)));
  CHECK(serving(forward, backward).empty());
  std::vector<std::string> all = backward;
  all.push_back(spec_of(other_forward));
  CHECK(serving(forward, all) == std::vector{other_forward});
  for (const KernelPass pass : kPasses) {
    if (pass == KernelPass::delta) continue;
    CHECK(serving(guess(pass), all) == std::vector{another(pass)});
  }
}
