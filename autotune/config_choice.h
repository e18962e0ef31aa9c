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

/// Where a kernel will run, as far as choosing goes.
struct Target {
  Arch arch;
  std::string device;  ///< name of the GPU; empty: not known, as when precompiling
  int sm_count = 0;    ///< 0: not known
};
Target target_of(const Device& device);

/// How configurations are chosen.
struct ChoiceSettings {
  TuneMode tune = TuneMode::search;
  std::optional<KernelConfig> pinned;
  std::string pinned_by;  ///< "FA2_CONFIG" or "ContextOptions::config"
  JitMode jit = JitMode::on;
};

struct ConfigChoice {
  KernelConfig config;
  ConfigOrigin origin = ConfigOrigin::heuristic;
  std::string reason;                  ///< one sentence
  std::optional<TuningRecord> record;  ///< the one that was followed, if it did not ship with the library
};

/// A choice, and a problem that it is made for.
struct PossibleChoice {
  PlannedProblem problem;
  ConfigChoice choice;
};

/// Measures a problem's candidates on the target: those of one pass.
using Search = std::function<TuneReport(const PlannedProblem& problem)>;

/// "measured 412.3 us against 430.1 us for the heuristic, 14 candidates in 2.1 s".
std::string summary(const TuneReport& report);

/// Returns the record of `store` that `problem` follows on the target; Match::none if there is none. `bucket`: the problem's, of
/// a pass.
Lookup find_record(const TuningStore& store, const PlannedProblem& problem, const Target& target,
                   const Bucket& bucket);

/// Whether another configuration may do: this one's kernel does not compile, or is missing where nothing may
/// be compiled.
bool is_obstacle(const Error& error);

/// The rule that a refused kernel broke, else the first line of the message.
std::string summary(const Error& error);

/// The kernel of pass dq_convert that goes with one of pass dq_dk_dv.
ConfigChoice conversion_of(const KernelConfig& summing);

/// Once for each kernel that is not what was wanted.
void warn_of_alternative(const PlannedProblem& problem, const ConfigChoice& wanted, const ConfigChoice& runs);

/// Thread-safe. One search at a time: two would disturb each other's measurements.
class ConfigChooser {
 public:
  /// Both outlive the chooser.
  ConfigChooser(const ChoiceSettings& settings, TuningStore& store) : settings_(settings), store_(store) {}

  /// Pinned, else by TuneMode: an exact record, a search now (if `search` is given, compiling is allowed and there is more
  /// than one configuration), the nearest record, another device's, the heuristic. On each of these steps the user's records
  /// come before those that ship with the library. A search that fails, or that could not compare anything, costs a warning
  /// and is not repeated for its bucket. All of it of one pass: records and a pinned config of another have no say.
  /// @throws InvalidRequest if the pinned config cannot compute this problem on this arch, Unavailable unless has_kernel().
  ConfigChoice choose(const PlannedProblem& problem, const Target& target, const Search& search = {},
                      KernelPass pass = KernelPass::forward);

  /// Pinned, else the heuristic's, which goes by what one sequence is and not by how many there are.
  ConfigChoice fixed(const PlannedProblem& problem, const Target& target, KernelPass pass) const;

  /// Returns whether the pinned config is of the pass.
  bool pins(KernelPass pass) const { return settings_.pinned && pass_of(*settings_.pinned) == pass; }

  /// Whether some kernel computes the pass. Of dK and dV together none does at wide head dims; none does where one is pinned
  /// that computes a part of it, nor of pass dq_convert: conversion_of().
  bool has_kernel(const PlannedProblem& problem, const Target& target, KernelPass pass) const;

  /// Whatever choose() can answer without a search, on any GPU of the target's arch, for problems with the
  /// traits of this one: each configuration once, and every record of the user's. Of a pinned config that one alone; asked
  /// for the forward, of whichever pass it is. None unless has_kernel().
  /// @throws InvalidRequest if the pinned config cannot compute any of them.
  std::vector<PossibleChoice> every_choice(const PlannedProblem& problem, const Target& target,
                                           KernelPass pass = KernelPass::forward) const;

  /// What serves if the kernel of `choice` cannot be had: nothing in place of a pinned config, else the
  /// heuristic's choices that are not it.
  static std::vector<ConfigChoice> alternatives(const ConfigChoice& choice, const PlannedProblem& problem,
                                                const Target& target);

  /// Searches, whatever is recorded, and records the result.
  TuneReport tune(const PlannedProblem& problem, const Target& target, const Search& search,
                  KernelPass pass = KernelPass::forward);

 private:
  static ConfigChoice guess(const PlannedProblem& problem, const Target& target, KernelPass pass,
                            const std::string& because);
  ConfigChoice pinned(const PlannedProblem& problem, const Target& target) const;
  /// Returns what records can answer for problems of these traits.
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

/// build(choice), else build() of the first of `alternatives()` whose kernel compiles, or is cached where
/// nothing may be compiled. What could not be built is named in its reason, and warned of. @throws the error of
/// `choice` if none can be built.
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
