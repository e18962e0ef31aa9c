// What is learned in the background: who may learn, and whom it serves.
#include <autotune/candidates.h>
#include <autotune/config_choice.h>
#include <doctest/doctest.h>
#include <tests/support/fake_search.h>
#include <tests/support/temporary_directory.h>
#include <tests/support/tuning_record.h>

#include <filesystem>

namespace {

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

TuningRecord record_with_tile(int tile_m) {
  TuningRecord record = record_of(some_gpu(), bucket_of(some_problem()), another_config());
  record.config.tile_m = tile_m;
  return record;
}

Lookup look_up(const TuningStore& store) {
  return store.find(some_gpu().device, "sm_80", 108, bucket_of(some_problem()),
                    [](const KernelConfig&) { return true; });
}

}  // namespace

TEST_CASE("a published record is for other processes; one that a process may not follow yet is left out") {
  const TemporaryDirectory directory;
  const fs::path file = directory / "tuning.jsonl";
  TuningRecord early = record_with_tile(16), late = record_with_tile(32);
  early.date = "2026-11-26T10:00:00Z", late.date = "2026-11-26T10:00:05Z";
  const TuningStore store(file);
  store.publish(early);
  store.publish(late);
  CHECK(store.records().empty());
  CHECK(look_up(TuningStore(file)).record.config.tile_m == 32);
  CHECK(look_up(TuningStore(file, {}, {}, "2026-11-26T10:00:05Z")).record.config.tile_m == 32);
  CHECK(look_up(TuningStore(file, {}, {}, "2026-11-26T10:00:04Z")).record.config.tile_m == 16);
  CHECK(look_up(TuningStore(file, {}, {}, "2026-11-26T09:59:59Z")).match == Match::none);
  CHECK(look_up(TuningStore("", {file}, {}, "2026-11-26T09:59:59Z")).record.config.tile_m ==
        32);  // deployed, not learned
}

TEST_CASE("what is learned serves later processes; with tune=adaptive this one, too") {
  for (const TuneMode mode : {TuneMode::learn, TuneMode::adaptive}) {
    const TemporaryDirectory directory;
    const auto file = directory / "tuning.jsonl";
    ChoiceSettings settings;
    settings.tune = mode;
    TuningStore store(file);
    ConfigChooser chooser(settings, store);
    CHECK(chooser.may_learn(some_problem(), some_gpu(), KernelPass::forward));
    CHECK(chooser.learn(some_problem(), some_gpu(), found, KernelPass::forward));
    const ConfigChoice choice = chooser.choose(some_problem(), some_gpu(), must_not_search);
    CHECK((choice.origin == ConfigOrigin::tuned_exact) == (mode == TuneMode::adaptive));
    CHECK_FALSE(
        chooser.learn(some_problem(), some_gpu(), must_not_search, KernelPass::forward));  // it is on disk
    TuningStore next(file);
    CHECK(ConfigChooser(settings, next).choose(some_problem(), some_gpu()).config == another_config());
  }
}

TEST_CASE(
    "nothing is learned in other modes, without a compiler, for pinned or promised configs, or from one "
    "candidate") {
  TuningStore store("");
  ChoiceSettings settings;
  const auto may_learn = [&](const PlannedProblem& problem = some_problem()) {
    return ConfigChooser(settings, store).may_learn(problem, some_gpu(), KernelPass::forward);
  };
  CHECK(may_learn());
  for (const TuneMode mode : {TuneMode::off, TuneMode::stored, TuneMode::now}) {
    settings.tune = mode;
    CHECK_FALSE(may_learn());
  }
  settings = {};
  settings.jit = JitMode::off;
  CHECK_FALSE(may_learn());
  settings = {};
  settings.pinned = another_config();
  CHECK_FALSE(may_learn());
  settings = {};
  PlannedProblem promised = some_problem();
  promised.batch_invariant = true;
  CHECK_FALSE(may_learn(promised));
  const Search stopped = [](const PlannedProblem&) { return TuneReport{}; };
  CHECK_FALSE(ConfigChooser(settings, store).learn(some_problem(), some_gpu(), stopped, KernelPass::forward));
  CHECK(store.records().empty());
}
