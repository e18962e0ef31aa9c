// The kernels of a backward are got at once, and are those that one after the other would give.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <planning/backward.h>
#include <runtime/parallel.h>
#include <tests/support/tuning_record.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Makes planners whose kernels are only named.
struct Fixture {
  Planner planner(const char* arch = "sm_80") {
    Planner planner{.problem = some_problem(),
                    .target = {*find_arch(arch), "Some GPU", 108},
                    .chooser = chooser,
                    .get = {},
                    .alternatives = {}};
    planner.get = [](const KernelSpec&) { return LoadedKernel(); };
    planner.alternatives = [](const PlannedProblem&, const ConfigChoice&) {
      return std::vector<ConfigChoice>();
    };
    return planner;
  }
  ChoiceSettings settings{.tune = TuneMode::off};
  TuningStore store{""};
  ConfigChooser chooser{settings, store};
  std::string notes;
};

std::vector<KernelPass> passes_of(const std::vector<LoadedKernel>& kernels) {
  std::vector<KernelPass> passes;
  for (const LoadedKernel& kernel : kernels) passes.push_back(pass_of(kernel.report.config));
  return passes;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "backward kernels: two are being made at the same time") {
  if (usable_cores() < 2) {
    MESSAGE("skipped: this process may use one core only");
    return;
  }
  std::mutex mutex;
  std::condition_variable arrival;
  int inside = 0, most = 0;
  Planner both = planner();
  both.get = [&](const KernelSpec&) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++inside);
    arrival.notify_all();
    arrival.wait_for(lock, std::chrono::seconds(20), [&] { return most >= 2; });
    --inside;
    return LoadedKernel();
  };
  const auto kernels = backward_kernels(both, {.determinism = Determinism::bitwise}, notes);
  CHECK(passes_of(kernels) == std::vector{KernelPass::delta, KernelPass::dq, KernelPass::dk_dv});
  CHECK(most >= 2);
}

TEST_CASE_FIXTURE(
    Fixture, "backward kernels: the conversion follows the kernel that accumulates dQ, also a replacement") {
  Planner replacing = planner("sm_90a");
  const auto choices = heuristic_choices(replacing.problem, replacing.target.arch, KernelPass::dq_dk_dv);
  REQUIRE(choices.size() > 1);
  replacing.get = [&](const KernelSpec& spec) {
    if (spec.config == choices[0].config) throw Unavailable("missing");
    return LoadedKernel();
  };
  replacing.alternatives = [&](const PlannedProblem&, const ConfigChoice&) {
    return std::vector<ConfigChoice>{{choices[1].config, ConfigOrigin::heuristic, "", std::nullopt}};
  };
  const auto kernels = backward_kernels(replacing, {}, notes);
  CHECK(passes_of(kernels) == std::vector{KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert});
  CHECK(kernels[1].report.config == choices[1].config);
  CHECK(kernels[2].report.config == conversion_of(choices[1].config).config);
}

TEST_CASE_FIXTURE(Fixture, "backward kernels: of several failures the first in launch order is reported") {
  Planner failing = planner();
  failing.get = [](const KernelSpec& spec) -> LoadedKernel {
    throw CudaError(std::string(to_string(spec.config.kernel)), 1);
  };
  for (int i = 0; i < 20; ++i)
    CHECK_THROWS_WITH_AS(backward_kernels(failing, {.determinism = Determinism::bitwise}, notes),
                         doctest::Contains("backward_delta"), CudaError);
}
