// The search over configurations: prepare in parallel, then successive halving over interleaved bursts.
#include <autotune/tuner.h>
#include <fmt/format.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <tuple>

namespace fa2 {
namespace {

constexpr double kCompileShare = 0.75;
constexpr double kFirstRoundsShare = 1.5;
constexpr int kFirstCut = 3;  ///< samples; also the fewest with which a challenger may win
constexpr double kFirstRatio = 1.3;
constexpr int kSecondCut = 7;
constexpr double kSecondRatio = 1.1;
constexpr int kFinalSamples = 15;
constexpr int kMoreIfShared = 8;  ///< times as many samples

struct Entrant {
  KernelConfig config;
  std::vector<double> samples;  ///< microseconds
  std::string dropped;          ///< empty while it races
  std::exception_ptr failure;

  bool racing() const { return dropped.empty(); }

  /// Returns the median, or if `shared` what one sample in twenty undercuts, which other work hardly disturbs.
  double typical(bool shared) const {
    if (samples.empty()) return 0;
    std::vector<double> sorted = samples;
    std::ranges::sort(sorted);
    if (shared) return sorted[(sorted.size() - 1) / 20];
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  double fastest() const { return *std::ranges::min_element(samples); }
};

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_until_stop(double seconds, const std::stop_token& stop) {
  constexpr double kSlice = 0.02;
  for (const double end = steady_seconds() + seconds; !stop.stop_requested();) {
    const double left = end - steady_seconds();
    if (left <= 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
  }
}

void raise(std::atomic<double>& maximum, double value) {
  double current = maximum;
  while (current < value && !maximum.compare_exchange_weak(current, value)) continue;
}

/// Calls `step`, and discards the entrant if it throws.
template <class Step>
void attempt(Entrant& entrant, const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    entrant.failure = std::current_exception();
    entrant.dropped = fmt::format("failed: {}", error.what());
  }
}

class Race {
 public:
  Race(const std::vector<KernelConfig>& candidates, Trial& trial, const TunerOptions& options)
      : trial_(trial), options_(options) {
    if (!options_.now_seconds) options_.now_seconds = steady_seconds;
    if (!options_.rest)
      options_.rest = [stop = options_.stop](double seconds) { sleep_until_stop(seconds, stop); };
    start_ = options_.now_seconds();
    for (const KernelConfig& config : candidates) entrants_.push_back({config, {}, {}, {}});
  }

  TuneReport run() {
    prepare();
    measure();
    return report();
  }

 private:
  double elapsed() const { return options_.now_seconds() - start_; }
  bool is_shared() const { return options_.gpu_share < 1; }
  /// Returns the number of samples that stands for `alone`, one of the constants above.
  int samples(int alone) const { return is_shared() ? kMoreIfShared * alone : alone; }
  bool is_stopped() const { return options_.stop.stop_requested(); }
  double typical(const Entrant& entrant) const { return entrant.typical(is_shared()); }

  /// Returns whether a step of `step_seconds` would end after this share of the budget.
  bool time_is_up(double share, double step_seconds = 0) {
    if (elapsed() + step_seconds < share * options_.budget_seconds) return false;
    budget_spent_ = true;
    return true;
  }

  void prepare() {
    for_each_index(entrants_.size(), options_.compile_threads, [&](std::size_t i) {
      const double start = elapsed();
      if (is_stopped()) {
        entrants_[i].dropped = "not compiled: the search was stopped";
        return;
      }
      if (i > 0 && time_is_up(kCompileShare, longest_prepare_)) {
        entrants_[i].dropped = "not compiled: the budget was spent";
        return;
      }
      attempt(entrants_[i], [&] { trial_.prepare(i); });
      raise(longest_prepare_, elapsed() - start);
    });
  }

  /// Interleaves candidates, so that a drifting clock slows all of them alike.
  void measure() {
    std::mt19937 random(options_.seed);
    sample(0);
    for (int round = 1; round <= samples(kFinalSamples); ++round) {
      std::vector<std::size_t> order = racing();
      if (order.size() < 2 && round > samples(kFirstCut)) return;
      std::ranges::shuffle(order, random);
      for (const std::size_t i : order) {
        if (round == 1 && i == 0) continue;
        if (is_stopped() || time_is_up(round <= samples(kFirstCut) ? kFirstRoundsShare : 1.0)) return;
        sample(i);
      }
      if (round == samples(kFirstCut)) drop_slower_than(kFirstRatio);
      if (round == samples(kSecondCut)) {
        drop_slower_than(kSecondRatio);
        keep_finalists();
      }
    }
  }

  void sample(std::size_t i) {
    Entrant& entrant = entrants_[i];
    if (!entrant.racing()) return;
    const double start = elapsed();
    attempt(entrant, [&] {
      const double us = trial_.measure_us(i);
      if (!(us > 0)) throw Error(ErrorCode::internal, fmt::format("measured {} us", us));
      entrant.samples.push_back(us);
    });
    if (is_shared()) options_.rest((elapsed() - start) * (1 / options_.gpu_share - 1));
  }

  std::vector<std::size_t> racing() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      if (entrants_[i].racing()) indices.push_back(i);
    }
    return indices;
  }

  /// Returns the racing candidates, fastest first.
  std::vector<std::size_t> ranking() const {
    std::vector<std::size_t> indices = racing();
    std::ranges::stable_sort(indices, {}, [&](std::size_t i) { return typical(entrants_[i]); });
    return indices;
  }

  void drop_slower_than(double ratio) {
    const std::vector<std::size_t> order = ranking();
    if (order.empty()) return;
    const double best = typical(entrants_[order.front()]);
    for (const std::size_t i : order) {
      const double us = typical(entrants_[i]);
      if (i == 0 || us <= ratio * best) continue;
      entrants_[i].dropped =
          fmt::format("{:.2f}x the best after {} samples", us / best, entrants_[i].samples.size());
    }
  }

  void keep_finalists() {
    std::size_t kept = entrants_[0].racing() ? 1 : 0;
    for (const std::size_t i : ranking()) {
      if (i != 0 && ++kept > options_.finalists)
        entrants_[i].dropped = fmt::format("not among the {} fastest", options_.finalists);
    }
  }

  /// Returns candidate 0 unless a well measured challenger beats it by the margin.
  const Entrant& winner() const {
    const Entrant& heuristic = entrants_[0];
    const std::vector<std::size_t> order = ranking();
    const auto well_measured = [&](std::size_t i) { return entrants_[i].samples.size() >= kFirstCut; };
    const auto best = std::ranges::find_if(order, well_measured);
    if (heuristic.racing()) {
      if (best == order.end()) return heuristic;
      const double share = 1 - options_.keep_margin;
      const bool beaten = typical(entrants_[*best]) < typical(heuristic) * share &&
                          (!is_shared() || entrants_[*best].fastest() < heuristic.fastest() * share);
      return beaten ? entrants_[*best] : heuristic;
    }
    if (best != order.end()) return entrants_[*best];
    const auto timed =
        std::ranges::find_if(order, [&](std::size_t i) { return !entrants_[i].samples.empty(); });
    if (timed != order.end()) return entrants_[*timed];
    if (heuristic.failure) std::rethrow_exception(heuristic.failure);
    return heuristic;  // stopped before it was prepared
  }

  TuneReport report() {
    const Entrant& best = winner();
    TuneReport report;
    report.best = best.config;
    report.best_us = typical(best);
    report.heuristic_us = typical(entrants_[0]);
    report.budget_spent = budget_spent_;
    for (Entrant& entrant : entrants_) {
      if (entrant.racing() && entrant.samples.size() < kFirstCut && &entrant != &best) {
        entrant.dropped = fmt::format("only {} samples when the budget was spent", entrant.samples.size());
      }
      report.candidates.push_back(
          {entrant.config, typical(entrant), static_cast<int>(entrant.samples.size()), entrant.dropped});
    }
    // With a drifting clock, medians of different numbers of samples cannot be compared.
    std::ranges::stable_sort(report.candidates, {}, [](const TuneCandidate& c) {
      const bool stayed = c.dropped.empty();
      return std::tuple(!stayed, stayed ? 0 : -c.samples, c.median_us);
    });
    report.seconds = elapsed();
    return report;
  }

  Trial& trial_;
  TunerOptions options_;
  double start_ = 0;
  std::vector<Entrant> entrants_;
  std::atomic<double> longest_prepare_ = 0;
  std::atomic<bool> budget_spent_ = false;
};

}  // namespace

TuneReport search(const std::vector<KernelConfig>& candidates, Trial& trial, const TunerOptions& options) {
  if (candidates.empty()) throw Error(ErrorCode::internal, "search() was given no candidate");
  return Race(candidates, trial, options).run();
}

}  // namespace fa2
