// How a config is chosen: pinned, recorded, searched, or by the heuristic.
#include <autotune/candidates.h>
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>
#include <runtime/parallel.h>
#include <tests/support/fake_search.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace {

using namespace fa2;
using namespace fa2::test;

TuningRecord record(const std::string& device, const PlannedProblem& problem) {
  return record_of({some_gpu().arch, device, 108}, bucket_of(problem), another_config());
}

bool has(const ConfigChoice& choice, std::string_view text) {
  return choice.reason.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a pinned config wins, but must be able to compute the problem") {
  ChoiceSettings settings;
  settings.pinned = another_config();
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  const ConfigChoice choice = chooser.choose(some_problem(), some_gpu(), must_not_search);
  CHECK(choice.origin == ConfigOrigin::pinned);
  CHECK(choice.config == another_config());
  CHECK(choice.reason == "pinned by FA2_CONFIG");

  settings.pinned->tile_m = 40;
  try {
    chooser.choose(some_problem(), some_gpu());
    FAIL("accepted");
  } catch (const InvalidRequest& error) {
    REQUIRE(error.violations().size() == 1);
    CHECK(error.violations()[0].field == "FA2_CONFIG");
    CHECK(error.violations()[0].rule.find("tile_m = 40") != std::string::npos);
  }
}

TEST_CASE("tune=off: the heuristic, whatever is recorded") {
  ChoiceSettings settings;
  settings.tune = TuneMode::off;
  TuningStore store("");
  store.add(record("Some GPU", some_problem()));
  ConfigChooser chooser(settings, store);
  const ConfigChoice choice = chooser.choose(some_problem(), some_gpu(), must_not_search);
  CHECK(choice.origin == ConfigOrigin::heuristic);
  CHECK(choice.config == heuristic(some_problem(), some_gpu().arch).config);
  CHECK(has(choice, "tuning is off"));
}

TEST_CASE("tune=learn and tune=adaptive: a choice never waits for a search") {
  ChoiceSettings settings;
  CHECK(settings.tune == TuneMode::learn);
  for (const TuneMode mode : {TuneMode::learn, TuneMode::adaptive}) {
    settings.tune = mode;
    TuningStore store("");
    ConfigChooser chooser(settings, store);
    CHECK(chooser.choose(some_problem(), some_gpu(), must_not_search).origin == ConfigOrigin::heuristic);
    store.add(record("Some GPU", some_problem()));
    CHECK(chooser.choose(some_problem(), some_gpu(), must_not_search).origin == ConfigOrigin::tuned_exact);
  }
}

TEST_CASE("tune=stored: exact, nearest, another device, heuristic") {
  ChoiceSettings settings;
  settings.tune = TuneMode::stored;
  PlannedProblem longer = some_problem();
  longer.seqlen_k *= 2;
  {
    TuningStore store("");
    CHECK(ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search).origin ==
          ConfigOrigin::heuristic);
  }
  {
    TuningStore store("");
    store.add(record("Other GPU", some_problem()));
    const ConfigChoice choice =
        ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
    CHECK(choice.origin == ConfigOrigin::tuned_other_device);
    CHECK(choice.config == another_config());
    CHECK(has(choice, "Other GPU"));
    REQUIRE(choice.record.has_value());
    CHECK(choice.record->device == "Other GPU");
  }
  {
    TuningStore store("");
    store.add(record("Some GPU", longer));
    const ConfigChoice choice =
        ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
    CHECK(choice.origin == ConfigOrigin::tuned_nearest);
    CHECK(has(choice, "seqlen_q ~1024 seqlen_k ~2048"));
  }
  {
    TuningStore store("");
    store.add(record("Some GPU", some_problem()));
    const ConfigChoice choice =
        ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
    CHECK(choice.origin == ConfigOrigin::tuned_exact);
    CHECK(has(choice, "90.0 us against 100.0 us"));
    CHECK_FALSE(has(choice, "other templates"));
  }
}

TEST_CASE("a problem with a window uses only records with windows, of its width or the nearest") {
  ChoiceSettings settings;
  settings.tune = TuneMode::stored;
  const auto windowed = [](std::int64_t left) {
    PlannedProblem p = some_problem();
    p.mask = MaskKind::causal_bottom_right;
    p.window_left = left;
    return p;
  };
  PlannedProblem causal = windowed(0);
  causal.window_left.reset();
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  const auto origin = [&](const PlannedProblem& p) {
    return chooser.choose(p, some_gpu(), must_not_search).origin;
  };
  store.add(record("Some GPU", causal));
  CHECK(origin(windowed(256)) == ConfigOrigin::heuristic);
  store.add(record("Some GPU", windowed(256)));
  CHECK(origin(windowed(256)) == ConfigOrigin::tuned_exact);
  CHECK(origin(windowed(255)) == ConfigOrigin::tuned_exact);
  CHECK(origin(windowed(512)) == ConfigOrigin::tuned_nearest);
  CHECK(origin(windowed(8)) == ConfigOrigin::heuristic);  // five octaves apart
  CHECK(origin(causal) == ConfigOrigin::tuned_exact);
  PlannedProblem both_sides = windowed(256);
  both_sides.mask = MaskKind::none;
  CHECK(origin(both_sides) == ConfigOrigin::heuristic);
}

TEST_CASE("a record made with other templates is used, and the choice says so") {
  TuningStore store("");
  TuningRecord stale = record("Some GPU", some_problem());
  stale.templates = "0123";
  store.add(stale);
  ChoiceSettings settings;
  const ConfigChoice choice =
      ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
  CHECK(choice.origin == ConfigOrigin::tuned_exact);
  CHECK(has(choice, "other templates"));
}

TEST_CASE("shipped records: ignored by off, used by stored and now, which say whose they are") {
  TuningRecord shipped = record("Some GPU", some_problem());
  shipped.templates = "0123";
  TuningStore store("", {}, {shipped});
  for (const TuneMode mode : {TuneMode::stored, TuneMode::now}) {
    ChoiceSettings settings;
    settings.tune = mode;
    const ConfigChoice choice =
        ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
    CHECK(choice.origin == ConfigOrigin::tuned_exact);
    CHECK(choice.config == another_config());
    CHECK(choice.reason.find("record shipped with this library for this bucket and GPU: 90.0 us") == 0);
    CHECK(has(choice, "other templates"));
    CHECK_FALSE(choice.record.has_value());
  }
  ChoiceSettings off;
  off.tune = TuneMode::off;
  CHECK(ConfigChooser(off, store).choose(some_problem(), some_gpu()).origin == ConfigOrigin::heuristic);

  store.add(record("Some GPU", some_problem()));
  const ChoiceSettings settings;
  const ConfigChoice own = ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
  CHECK(own.reason.find("record for this bucket and GPU: ") == 0);
  CHECK(own.record.has_value());
}

TEST_CASE("search measures a problem without an exact record, shipped or not") {
  PlannedProblem longer = some_problem();
  longer.seqlen_k *= 2;
  TuningStore store("", {}, {record("Some GPU", longer), record("Other GPU", some_problem())});
  const ChoiceSettings settings{.tune = TuneMode::now};
  CHECK(ConfigChooser(settings, store).choose(some_problem(), some_gpu(), found).origin ==
        ConfigOrigin::tuned_now);
  CHECK(store.records().size() == 1);
}

TEST_CASE("search: a bucket is measured once, then recorded") {
  ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  store.add(record("Other GPU", some_problem()));
  ConfigChooser chooser(settings, store);
  const ConfigChoice first = chooser.choose(some_problem(), some_gpu(), found);
  CHECK(first.origin == ConfigOrigin::tuned_now);
  CHECK(first.config == another_config());
  CHECK(first.reason == "measured 80.0 us against 100.0 us for the heuristic, 2 candidates timed in 2.1 s");

  PlannedProblem same_bucket = some_problem();
  same_bucket.seqlen_k += 1;
  const ConfigChoice second = chooser.choose(same_bucket, some_gpu(), must_not_search);
  CHECK(second.origin == ConfigOrigin::tuned_exact);
  CHECK(second.record->us == 80);
  CHECK(second.record->heuristic_us == 100);
  CHECK(second.record->templates == template_digest(another_config(), some_gpu().arch));
  CHECK(second.record->date.size() == 20);
}

TEST_CASE("without a search function, records and the heuristic serve") {
  ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  CHECK(ConfigChooser(settings, store).choose(some_problem(), some_gpu()).origin == ConfigOrigin::heuristic);
}

TEST_CASE("FA2_JIT=off never searches") {
  ChoiceSettings settings{.tune = TuneMode::now};
  settings.jit = JitMode::off;
  TuningStore store("");
  const ConfigChoice choice =
      ConfigChooser(settings, store).choose(some_problem(), some_gpu(), must_not_search);
  CHECK(choice.origin == ConfigOrigin::heuristic);
  CHECK(has(choice, "FA2_JIT=off"));
}

TEST_CASE("a search that fails or compares nothing is not recorded and not repeated") {
  ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  int searches = 0;
  const Search fails = [&](const PlannedProblem&) -> TuneReport {
    ++searches;
    throw CudaError("out of memory", 2);
  };
  for (int i = 0; i < 2; ++i) {
    const ConfigChoice choice = chooser.choose(some_problem(), some_gpu(), fails);
    CHECK(choice.origin == ConfigOrigin::heuristic);
    CHECK(has(choice, "out of memory"));
  }
  CHECK(searches == 1);

  const Search times_one = [&](const PlannedProblem& problem) {
    ++searches;
    TuneReport report = found(problem);
    report.candidates[1].samples = 0;
    report.budget_spent = true;
    return report;
  };
  PlannedProblem other = some_problem();
  other.mask = MaskKind::causal_top_left;
  for (int i = 0; i < 2; ++i) {
    const ConfigChoice choice = chooser.choose(other, some_gpu(), times_one);
    CHECK(choice.origin == ConfigOrigin::heuristic);
    CHECK(has(choice, "only 1 of 2 candidates"));
  }
  CHECK(searches == 2);
  CHECK(store.records().empty());
}

TEST_CASE("a search in which only one config works is recorded, because there is no other to compare") {
  ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  int searches = 0;
  const Search times_one = [&](const PlannedProblem& problem) {
    ++searches;
    TuneReport report = found(problem);
    report.candidates[1].samples = 0;
    report.candidates[1].dropped = "failed: spills";
    return report;
  };
  CHECK(chooser.choose(some_problem(), some_gpu(), times_one).origin == ConfigOrigin::tuned_now);
  CHECK(chooser.choose(some_problem(), some_gpu(), times_one).origin == ConfigOrigin::tuned_exact);
  CHECK(searches == 1);
}

TEST_CASE("threads that meet a new bucket at the same time search once") {
  ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  std::atomic<int> searches = 0, tuned = 0;
  for_each_index(6, 6, [&](std::size_t) {
    const ConfigChoice choice =
        chooser.choose(some_problem(), some_gpu(), [&](const PlannedProblem& problem) {
          ++searches;
          return found(problem);
        });
    if (choice.config == another_config()) ++tuned;
  });
  CHECK(searches == 1);
  CHECK(tuned == 6);
}

TEST_CASE("tune() searches even if there is a record") {
  ChoiceSettings settings{.tune = TuneMode::now};
  settings.tune = TuneMode::off;
  TuningStore store("");
  store.add(record("Some GPU", some_problem()));
  const TuneReport report = ConfigChooser(settings, store).tune(some_problem(), some_gpu(), found);
  CHECK(report.problem == some_problem());
  CHECK(report.bucket == to_string(bucket_of(some_problem())));
  CHECK(store.records().size() == 2);
}

TEST_CASE("the heuristic's next choice replaces a kernel that cannot be built, and says so") {
  const ConfigChoice wanted{another_config(), ConfigOrigin::tuned_exact, "record", std::nullopt};
  const auto others = ConfigChooser::alternatives(wanted, some_problem(), some_gpu());
  const auto table = heuristic_choices(some_problem(), some_gpu().arch);
  REQUIRE(others.size() >= 2);
  CHECK(others[0].config == table[0].config);
  for (const ConfigChoice& other : others) CHECK_FALSE(other.config == wanted.config);

  std::vector<KernelConfig> tried;
  const auto build = [&](std::size_t first_good) {
    tried.clear();
    const auto alternatives = [&] { return others; };
    return build_first(some_problem(), wanted, alternatives, [&](const ConfigChoice& choice) {
      tried.push_back(choice.config);
      if (tried.size() == 1 && first_good > 0) throw KernelRefused("long", "spills (nvrtc 12.3)", "", "");
      if (tried.size() <= first_good) throw Unavailable("not cached\nsearched: everywhere");
      return choice;
    });
  };
  CHECK(build(0).reason == "record");
  const ConfigChoice third = build(2);
  CHECK(third.config == others[1].config);
  CHECK(third.origin == ConfigOrigin::heuristic);
  CHECK(has(third, to_string(wanted.config) + ": spills (nvrtc 12.3)"));
  CHECK(has(third, to_string(others[0].config) + ": not cached"));
  CHECK_FALSE(has(third, "everywhere"));
  // If nothing can be built, the first failure is thrown, because it explains most.
  CHECK_THROWS_AS(build(1 + others.size()), KernelRefused);
  CHECK(tried.size() == 1 + others.size());
}

TEST_CASE("other failures do not lead to another choice, and a pinned config has no other") {
  const ConfigChoice guess{heuristic(some_problem(), some_gpu().arch).config, ConfigOrigin::heuristic, "",
                           std::nullopt};
  const auto alternatives = [&] { return ConfigChooser::alternatives(guess, some_problem(), some_gpu()); };
  int builds = 0;
  const auto out_of_memory = [&](const ConfigChoice&) -> int {
    ++builds;
    throw CudaError("out of memory", 2);
  };
  CHECK_THROWS_AS(build_first(some_problem(), guess, alternatives, out_of_memory), CudaError);
  CHECK(builds == 1);
  const ConfigChoice pinned{another_config(), ConfigOrigin::pinned, "", std::nullopt};
  CHECK(ConfigChooser::alternatives(pinned, some_problem(), some_gpu()).empty());
}

TEST_CASE("masks that show most blocks in part: another config of the heuristic's, which packs have too") {
  const Target hopper{*find_arch("sm_90a"), "Some GPU", 132};
  PlannedProblem p({.head_dim = 128, .heads_q = 16, .seqlen_q = 4096, .seqlen_k = 4096}, {});
  p.score_text = make_score_text({.mask = "return at.key / 300 == at.query / 300;"});
  p = p.normalized();
  ChoiceSettings settings;
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  const ConfigChoice choice = chooser.choose(p, hopper);
  const auto small = ConfigChooser::for_partial_mask(choice, p, hopper);
  REQUIRE(small.has_value());
  CHECK(small->config.tile_m < choice.config.tile_m);
  CHECK(small->config.key_map == 1);
  CHECK_FALSE(why_rejected(p, small->config, hopper.arch).has_value());
  CHECK_FALSE(ConfigChooser::for_partial_mask(*small, p, hopper).has_value());
  CHECK(std::ranges::any_of(chooser.every_choice(p, hopper), [&](const PossibleChoice& possible) {
    return possible.choice.config == small->config;
  }));

  ConfigChoice measured = choice;
  measured.origin = ConfigOrigin::tuned_exact;
  CHECK_FALSE(ConfigChooser::for_partial_mask(measured, p, hopper).has_value());

  // A mask that captures has them at once, because nobody counts.
  p.score_text = make_score_text(
      {.mask = "return ids(at.query) == ids(at.key);", .captures = {{"ids", CaptureType::i32, 1}}});
  CHECK(chooser.choose(p, hopper).config == small->config);
}
