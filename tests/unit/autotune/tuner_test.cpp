// The search over configs, on synthetic timings with a fake clock.
#include <autotune/tuner.h>
#include <doctest/doctest.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace fa2;

/// Candidate i takes base_us[i], plus or minus noise that depends only on i and on how often it was measured.
class Landscape final : public Trial {
 public:
  std::vector<double> base_us;
  double noise = 0;
  double slow_down = 1;                             ///< factor per earlier sample of the candidate
  double prepare_seconds = 0, measure_seconds = 0;  ///< seconds that each call adds to the clock
  std::set<std::size_t> fails_to_prepare;
  std::map<std::size_t, int> fails_to_measure;  ///< candidate to its first failing sample (0, 1, ...)
  std::vector<int> measured;                    ///< calls per candidate
  std::vector<std::size_t> order;               ///< candidates in the order in which they were measured
  std::atomic<int> prepared = 0;

  explicit Landscape(std::vector<double> us) : base_us(std::move(us)), measured(base_us.size()) {}

  void prepare(std::size_t i) override {
    advance(prepare_seconds);
    ++prepared;
    if (fails_to_prepare.contains(i)) throw CompileError("spills " + std::to_string(i), "", "");
  }

  double measure_us(std::size_t i) override {
    advance(measure_seconds);
    order.push_back(i);
    const int sample = measured[i]++;
    const auto failing = fails_to_measure.find(i);
    if (failing != fails_to_measure.end() && sample >= failing->second) throw CudaError("boom", 700);
    const unsigned hash =
        (static_cast<unsigned>(i) * 7919u + static_cast<unsigned>(sample) * 104729u) * 2654435761u;
    return base_us[i] * std::pow(slow_down, sample) *
           (1 + noise * (static_cast<double>(hash >> 16) / 32768.0 - 1));
  }

  TunerOptions options() {
    TunerOptions options;
    options.now_seconds = [this] { return static_cast<double>(microseconds_) * 1e-6; };
    return options;
  }

  std::vector<KernelConfig> candidates() const {
    std::vector<KernelConfig> configs(base_us.size());
    for (std::size_t i = 0; i < configs.size(); ++i) configs[i].tile_n = static_cast<int>(i);
    return configs;
  }

 private:
  void advance(double seconds) { microseconds_ += static_cast<long>(seconds * 1e6); }
  std::atomic<long> microseconds_ = 0;
};

const TuneCandidate& row(const TuneReport& report, int index) {
  return *std::ranges::find_if(report.candidates, [&](const auto& c) { return c.config.tile_n == index; });
}

}  // namespace

TEST_CASE("the search finds the fastest candidate through noise") {
  Landscape landscape({100, 140, 95, 60, 75, 61.5, 130, 97, 63, 110});
  landscape.noise = 0.01;
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());

  CHECK(report.best.tile_n == 3);
  CHECK(report.best_us == doctest::Approx(60).epsilon(0.01));
  CHECK(report.heuristic_us == doctest::Approx(100).epsilon(0.01));
  CHECK_FALSE(report.budget_spent);
  REQUIRE(report.candidates.size() == 10);
  const int finalists[] = {3, 5, 8, 0};
  for (std::size_t i = 0; i < 4; ++i) CHECK(report.candidates[i].config.tile_n == finalists[i]);

  CHECK(row(report, 1).samples == 3);  // 2.3 times the best
  CHECK(row(report, 1).dropped.ends_with("x the best after 3 samples"));
  CHECK(row(report, 4).samples == 7);  // 1.25 times
  CHECK(row(report, 4).dropped.ends_with("x the best after 7 samples"));
  for (const int finalist : finalists) {
    CHECK(row(report, finalist).samples == 15);
    CHECK(row(report, finalist).dropped.empty());
  }
}

TEST_CASE("at most four finalists, among them the heuristic's choice") {
  Landscape landscape({105, 100, 101, 102, 103, 104});
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());
  const auto finalists = std::ranges::count(report.candidates, 15, &TuneCandidate::samples);
  CHECK(finalists == 4);
  CHECK(row(report, 0).samples == 15);
  CHECK(row(report, 4).dropped == "not among the 4 fastest");
  CHECK(report.best.tile_n == 1);
}

TEST_CASE("with enough budget, every candidate within 1.1x after the second cut stays to the end") {
  Landscape landscape({105, 100, 101, 102, 103, 104, 109, 112});
  TunerOptions options = landscape.options();
  options.finalists = landscape.base_us.size();
  const TuneReport report = search(landscape.candidates(), landscape, options);
  CHECK(std::ranges::count(report.candidates, 15, &TuneCandidate::samples) == 7);
  CHECK(row(report, 7).samples == 7);
  CHECK(report.candidates.back().config.tile_n == 7);
}

TEST_CASE("the report lists candidates that stayed before those that left early, whatever their medians") {
  Landscape landscape({100, 80, 88.5, 110, 92, 95, 60});
  landscape.slow_down = 1.05;
  landscape.fails_to_measure = {{5, 4}};
  landscape.fails_to_prepare = {6};
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());
  std::vector<std::pair<int, int>> rows;  // candidate and samples
  for (const TuneCandidate& c : report.candidates) rows.emplace_back(c.config.tile_n, c.samples);
  const std::vector<std::pair<int, int>> expected = {{1, 15}, {0, 15}, {2, 7}, {4, 7},
                                                     {5, 4},  {3, 3},  {6, 0}};
  CHECK(rows == expected);
  CHECK(row(report, 2).median_us < row(report, 1).median_us);
}

TEST_CASE("the heuristic's choice stays unless another beats it by the margin") {
  Landscape close({100, 99, 98.5});
  CHECK(search(close.candidates(), close, close.options()).best.tile_n == 0);

  Landscape beaten({100, 99, 97.5});
  CHECK(search(beaten.candidates(), beaten, beaten.options()).best.tile_n == 2);

  Landscape alone({100});
  const TuneReport report = search(alone.candidates(), alone, alone.options());
  CHECK(report.best_us == 100);
  CHECK(alone.measured[0] == 3);
}

TEST_CASE("candidate 0 is measured first, the others in an order shuffled every round") {
  Landscape landscape({100, 100, 100, 100, 100, 100, 100, 100});
  search(landscape.candidates(), landscape, landscape.options());
  CHECK(landscape.order.front() == 0);
  const auto round = [&](std::size_t i) {
    return std::vector(landscape.order.begin() + 8 * i, landscape.order.begin() + 8 * (i + 1));
  };
  CHECK(round(0) != round(1));
  CHECK(round(1) != round(2));
  const std::vector<std::size_t> second = round(1);
  CHECK(std::set(second.begin(), second.end()).size() == 8);

  Landscape again({100, 100, 100, 100, 100, 100, 100, 100});
  search(again.candidates(), again, again.options());
  CHECK(again.order == landscape.order);
}

TEST_CASE("candidates that throw are discarded with the reason") {
  Landscape landscape({100, 50, 60, 70});
  landscape.fails_to_prepare = {1};
  landscape.fails_to_measure = {{2, 4}};
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());
  CHECK(report.best.tile_n == 3);
  CHECK(row(report, 1).dropped == "failed: spills 1");
  CHECK(row(report, 1).samples == 0);
  CHECK(row(report, 1).median_us == 0);
  CHECK(row(report, 2).dropped == "failed: boom");
  CHECK(report.candidates.back().config.tile_n == 1);
}

TEST_CASE("if the heuristic's choice fails, the others compete") {
  Landscape landscape({100, 120, 110});
  landscape.fails_to_prepare = {0};
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());
  CHECK(report.best.tile_n == 2);
  CHECK(report.heuristic_us == 0);
}

TEST_CASE("if no candidate works, the error is candidate 0's") {
  Landscape landscape({100, 100});
  landscape.fails_to_prepare = {0, 1};
  CHECK_THROWS_WITH_AS(search(landscape.candidates(), landscape, landscape.options()), "spills 0",
                       CompileError);

  Landscape unmeasurable({100, 100});
  unmeasurable.fails_to_prepare = {1};
  unmeasurable.fails_to_measure = {{0, 0}};
  CHECK_THROWS_WITH_AS(search(unmeasurable.candidates(), unmeasurable, unmeasurable.options()), "boom",
                       CudaError);
}

TEST_CASE("a measurement that is not a positive number discards its candidate") {
  Landscape landscape({100, 0, -5, std::nan("")});
  const TuneReport report = search(landscape.candidates(), landscape, landscape.options());
  CHECK(report.best.tile_n == 0);
  CHECK(row(report, 3).dropped.starts_with("failed: measured nan"));
}

TEST_CASE("the budget ends compiling, and candidates not compiled by then are not measured") {
  Landscape landscape(std::vector<double>(20, 100.0));
  landscape.prepare_seconds = 0.25;
  TunerOptions options = landscape.options();
  options.budget_seconds = 1;
  options.compile_threads = 1;
  const TuneReport report = search(landscape.candidates(), landscape, options);
  CHECK(landscape.prepared == 2);  // a third would be ready at 0.75 s, which is not before 75 % of the budget
  CHECK(report.budget_spent);
  CHECK(report.seconds == doctest::Approx(0.5));
  CHECK(row(report, 2).dropped == "not compiled: the budget was spent");
  CHECK(landscape.measured[2] == 0);
}

TEST_CASE("the budget ends measuring, and a single fast sample does not win") {
  Landscape landscape({100, 50, 50, 50});
  landscape.measure_seconds = 0.1;
  TunerOptions options = landscape.options();
  options.budget_seconds = 0.37;  // plus half of it: one round of four and half of the next
  const TuneReport report = search(landscape.candidates(), landscape, options);
  CHECK(report.budget_spent);
  CHECK(landscape.order.size() == 6);
  CHECK(report.best.tile_n == 0);
  CHECK(report.best_us == 100);
  CHECK(row(report, 1).dropped.ends_with("when the budget was spent"));
}

TEST_CASE("without any budget the heuristic's choice is still prepared and measured") {
  Landscape landscape({100, 50});
  TunerOptions options = landscape.options();
  options.budget_seconds = 0;
  const TuneReport report = search(landscape.candidates(), landscape, options);
  CHECK(report.best_us == 100);
  CHECK(report.budget_spent);
  CHECK(landscape.measured == std::vector{1, 0});
}

TEST_CASE("beside other work, a search rests after each sample") {
  Landscape landscape({100, 90, 80});
  landscape.measure_seconds = 0.001;
  TunerOptions options = landscape.options();
  options.gpu_share = 0.05;
  double rested = 0;
  options.rest = [&](double seconds) { rested += seconds; };
  const TuneReport report = search(landscape.candidates(), landscape, options);
  CHECK(report.best.tile_n == 2);
  CHECK(rested == doctest::Approx(0.019 * static_cast<double>(landscape.order.size())));
}

TEST_CASE("beside other work, the few undisturbed samples decide, and a lucky one does not") {
  class Disturbed final : public Trial {
   public:
    void prepare(std::size_t) override {}
    double measure_us(std::size_t i) override {
      const int sample = samples[i]++;
      const bool is_quiet = sample % 10 == 3;  // nine of ten are disturbed
      if (i == 1) return is_quiet ? 95 : 150 + sample % 40;
      if (i == 2) return sample == 13 ? 90 : 130 + sample % 40;  // one lucky sample
      if (i == 3) return is_quiet ? 99 : 101;                    // hardly better
      return is_quiet ? 100 : 150 + sample % 40;
    }
    std::map<std::size_t, int> samples;
  } trial;
  std::vector<KernelConfig> candidates(4);
  for (int i = 0; i < 4; ++i) candidates[static_cast<std::size_t>(i)].tile_n = i;
  TunerOptions options;
  options.gpu_share = 0.5;
  options.rest = [](double) {};
  const TuneReport report = search(candidates, trial, options);
  CHECK(report.best.tile_n == 1);
  CHECK(report.best_us == doctest::Approx(95));
  CHECK(report.heuristic_us == doctest::Approx(100));
  CHECK(trial.samples[0] == 120);
}

TEST_CASE("a stop ends a search after the step under way") {
  Landscape landscape({100, 90, 80});
  std::stop_source source;
  TunerOptions options = landscape.options();
  options.gpu_share = 0.05;
  options.stop = source.get_token();
  int rests = 0;
  options.rest = [&](double) {
    if (++rests == 4) source.request_stop();
  };
  search(landscape.candidates(), landscape, options);
  CHECK(landscape.order.size() == 4);
  CHECK(search(landscape.candidates(), landscape, options).candidates.size() == 3);
  CHECK(landscape.prepared == 3);  // of the first search
}

TEST_CASE("no candidates is a bug of the caller") {
  Landscape landscape({});
  CHECK_THROWS_AS(search({}, landscape, {}), Error);
}

TEST_CASE("for_each_index visits every index once and rethrows the exception of the lowest index") {
  std::vector<std::atomic<int>> visits(100);
  for_each_index(visits.size(), 4, [&](std::size_t i) { ++visits[i]; });
  CHECK(std::ranges::all_of(visits, [](const auto& n) { return n == 1; }));

  std::atomic<int> calls = 0;
  const auto body = [&](std::size_t) {
    ++calls;
    throw CacheError("full");
  };
  CHECK_THROWS_WITH_AS(for_each_index(100, 2, body), "full", CacheError);
  CHECK(calls <= 2);

  std::atomic<bool> second_started = false;
  const auto in_reverse = [&](std::size_t i) {
    if (i == 1) second_started = true;
    while (!second_started) std::this_thread::yield();
    if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw CacheError(i == 0 ? "first" : "second");
  };
  CHECK_THROWS_WITH_AS(for_each_index(2, 2, in_reverse), "first", CacheError);
}
