// Which configuration a problem runs with: pinned, measured, recorded or guessed.
#pragma once

#include <autotune/tuning_store.h>
#include <core/arch.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>

#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// The GPU that a kernel will run on, as the choice depends on it.
struct Target {
  Arch arch;
  std::string device;  ///< name of the GPU; empty if unknown, as when precompiling
  int sm_count = 0;    ///< 0 if unknown
};
Target target_of(const Device& device);

/// How configurations are chosen.
struct ChoiceSettings {
  TuneMode tune = TuneMode::learn;
  std::optional<KernelConfig> pinned = {};
  std::string pinned_by = {};  ///< "FA2_CONFIG" or "ContextOptions::config"
  JitMode jit = JitMode::on;
};

struct ConfigChoice {
  KernelConfig config;
  ConfigOrigin origin = ConfigOrigin::heuristic;
  std::string reason;                  ///< one sentence
  std::optional<TuningRecord> record;  ///< the record in use, unless it ships with the library
};

/// A choice and a problem for which it is made.
struct PossibleChoice {
  PlannedProblem problem;
  ConfigChoice choice;
};

/// Measures a problem's candidates of one pass on the target.
using Search = std::function<TuneReport(const PlannedProblem& problem)>;

/// Returns "measured 412.3 us against 430.1 us for the heuristic, 14 candidates in 2.1 s".
std::string summary(const TuneReport& report);

/// Returns the record of `store` that `problem` uses on the target; Match::none if there is none. `bucket`: the problem's bucket
/// for a pass.
Lookup find_record(const TuningStore& store, const PlannedProblem& problem, const Target& target,
                   const Bucket& bucket);

/// Returns whether another config may replace this one: its kernel does not compile, or is missing and must not be compiled.
bool is_obstacle(const Error& error);

/// Returns the rule that a rejected kernel broke, else the first line of the message.
std::string summary(const Error& error);

/// Returns the config of the kernel that rounds the dQ which a kernel with config `summing` accumulates.
ConfigChoice conversion_of(const KernelConfig& summing);

/// Warns once for each kernel that replaces another.
void warn_of_alternative(const PlannedProblem& problem, const ConfigChoice& wanted, const ConfigChoice& runs);

/// Thread-safe. One search at a time: two would disturb each other's measurements.
class ConfigChooser {
 public:
  /// Both must outlive the chooser.
  ConfigChooser(const ChoiceSettings& settings, TuningStore& store) : settings_(settings), store_(store) {}

  /// Returns the config for one pass; records and pins of other passes are ignored. The first of these exists: the pinned config, an
  /// exact record, a search now, the nearest record, another device's record, the heuristic's config; TuneMode skips some. A search
  /// needs `search`, permission to compile, and more than one config. The user's records come before shipped ones that match as
  /// well. A search that fails, or that compares nothing, costs a warning and is not repeated for its bucket.
  /// @throws InvalidRequest if the pinned config cannot compute this problem on this arch, Unavailable unless has_kernel().
  ConfigChoice choose(const PlannedProblem& problem, const Target& target, const Search& search = {},
                      KernelPass pass = KernelPass::forward);

  /// Returns the pinned config, else the heuristic's for one sequence, which ignores how many sequences there are.
  ConfigChoice fixed(const PlannedProblem& problem, const Target& target, KernelPass pass) const;

  /// Returns whether the pinned config is of the pass.
  bool pins(KernelPass pass) const { return settings_.pinned && pass_of(*settings_.pinned) == pass; }

  /// Returns whether the pinned config, if there is one, computes this forward.
  bool pin_computes(const PlannedProblem& problem, const Target& target) const;

  /// Returns whether some kernel computes the pass. False for dK and dV together at wide head dims, if a pinned kernel computes only
  /// a part of the pass, and for dq_convert: see conversion_of().
  bool has_kernel(const PlannedProblem& problem, const Target& target, KernelPass pass) const;

  /// Returns all answers that choose() can give without a search, on any GPU of the target's arch, for problems of these traits:
  /// each config once, and every record of the user. If a config is pinned, returns it alone, for its own pass and for the forward.
  /// Empty unless has_kernel().
  /// @throws InvalidRequest if the pinned config cannot compute any of them.
  std::vector<PossibleChoice> every_choice(const PlannedProblem& problem, const Target& target,
                                           KernelPass pass = KernelPass::forward) const;

  /// Returns the choice in place of `choice` for a mask in a text that shows most of its blocks in part; none if `choice` stays.
  static std::optional<ConfigChoice> for_partial_mask(const ConfigChoice& choice,
                                                      const PlannedProblem& problem, const Target& target);

  /// Returns the replacements for a `choice` whose kernel is not available: none for a pinned config, else the heuristic's other
  /// choices.
  static std::vector<ConfigChoice> alternatives(const ConfigChoice& choice, const PlannedProblem& problem,
                                                const Target& target);

  /// Searches for the benefit of later processes: publishes the record, and with TuneMode::adaptive adds it to the store. Does
  /// nothing if an exact record is there by now, from this process or another. Returns whether the search compared configs.
  bool learn(const PlannedProblem& problem, const Target& target, const Search& search, KernelPass pass);

  /// Returns whether anything is learned in this mode.
  bool learns() const {
    return settings_.jit != JitMode::off &&
           (settings_.tune == TuneMode::learn || settings_.tune == TuneMode::adaptive);
  }

  /// Returns whether learn() has something to learn.
  bool may_learn(const PlannedProblem& problem, const Target& target, KernelPass pass) const;

  /// Searches even if there is a record, and records the result.
  TuneReport tune(const PlannedProblem& problem, const Target& target, const Search& search,
                  KernelPass pass = KernelPass::forward);

 private:
  static ConfigChoice guess(const PlannedProblem& problem, const Target& target, KernelPass pass,
                            const std::string& because);
  ConfigChoice pinned(const PlannedProblem& problem, const Target& target) const;
  /// Returns the choices that records could make for problems of these traits.
  std::vector<PossibleChoice> recorded_choices(const PlannedProblem& problem, const Target& target,
                                               KernelPass pass) const;
  std::optional<ConfigChoice> measure(const PlannedProblem& problem, const Target& target,
                                      const Bucket& bucket, const Search& search, std::string& obstacle);
  TuneReport search_and_record(const PlannedProblem& problem, const Target& target, const Bucket& bucket,
                               const Search& search);

  const ChoiceSettings& settings_;
  TuningStore& store_;
  std::mutex measuring_;
  std::map<std::string, std::string> unmeasurable_;  ///< device and bucket -> why; guarded by measuring_
};

/// Returns build(choice), else build() of the first of `alternatives()` whose kernel is available. Its reason names the choices
/// that could not be built, and a warning does. @throws the error of `choice` if none can be built.
template <class Alternatives, class Build>
auto build_first(const PlannedProblem& problem, const ConfigChoice& choice, const Alternatives& alternatives,
                 const Build& build) {
  std::exception_ptr failure;
  std::string obstacles;
  const auto attempt = [&](const ConfigChoice& possible) -> std::optional<decltype(build(choice))> {
    try {
      return build(possible);
    } catch (const Error& error) {
      if (!is_obstacle(error)) throw;
      if (!failure) failure = std::current_exception();
      obstacles += "; instead of " + to_string(possible.config) + ": " + summary(error);
      return std::nullopt;
    }
  };
  if (auto built = attempt(choice)) return *std::move(built);
  for (ConfigChoice other : alternatives()) {
    other.reason += obstacles;
    if (auto built = attempt(other)) {
      warn_of_alternative(problem, choice, other);
      return *std::move(built);
    }
  }
  std::rethrow_exception(failure);
}

}  // namespace fa2
