// Chooses a config: pinned, measured, recorded or the heuristic's.
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>
#include <runtime/log.h>
#include <runtime/process.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>
#include <utility>

namespace fa2 {
namespace {

std::size_t timed(const TuneReport& report) {
  return static_cast<std::size_t>(
      std::ranges::count_if(report.candidates, [](const TuneCandidate& c) { return c.samples > 0; }));
}

/// Returns whether the report shows which config is best: several were timed, or only one could be and there was time left.
bool compares(const TuneReport& report) {
  return timed(report) >= (report.budget_spent ? std::min<std::size_t>(2, report.candidates.size()) : 1);
}

TuningRecord record_of(const Bucket& bucket, const Target& target, const TuneReport& report) {
  return {target.device,
          std::string(target.arch.name),
          target.sm_count,
          bucket,
          report.best,
          report.best_us,
          report.heuristic_us,
          template_digest(report.best, target.arch),
          utc_text(std::time(nullptr))};
}

ConfigOrigin origin_of(Match match) {
  if (match == Match::exact) return ConfigOrigin::tuned_exact;
  return match == Match::nearest ? ConfigOrigin::tuned_nearest : ConfigOrigin::tuned_other_device;
}

ConfigChoice follow(const Lookup& lookup, const Bucket& wanted, const Arch& arch,
                    const std::string& obstacle) {
  const TuningRecord& record = lookup.record;
  std::string reason = lookup.shipped ? "record shipped with this library" : "record";
  if (lookup.match == Match::exact) reason += " for this bucket and GPU";
  if (lookup.match == Match::nearest) {
    reason += fmt::format(" for this GPU of a bucket near to \"{}\", \"{}\"", to_string(wanted),
                          to_string(record.bucket));
  }
  if (lookup.match == Match::other_device)
    reason += fmt::format(" for this bucket of another GPU, {}", record.device);
  reason += fmt::format(": {:.1f} us against {:.1f} us for the heuristic, {}", record.us, record.heuristic_us,
                        record.date.empty() ? "undated" : record.date);
  if (record.templates != template_digest(record.config, arch))
    reason += "; measured with other templates than this library's";
  if (!obstacle.empty()) reason += "; not measured now: " + obstacle;
  ConfigChoice choice{record.config, origin_of(lookup.match), reason, std::nullopt};
  if (!lookup.shipped) choice.record = record;
  return choice;
}

}  // namespace

Target target_of(const Device& device) {
  return {device.arch, device.name, device.sm_count};
}

std::string summary(const TuneReport& report) {
  std::string text = report.heuristic_us > 0
                         ? fmt::format("measured {:.1f} us against {:.1f} us for the heuristic",
                                       report.best_us, report.heuristic_us)
                         : fmt::format("measured {:.1f} us, the heuristic's choice failed", report.best_us);
  return text + fmt::format(", {} candidates timed in {:.1f} s{}", timed(report), report.seconds,
                            report.budget_spent ? ", the whole budget" : "");
}

Lookup find_record(const TuningStore& store, const PlannedProblem& problem, const Target& target,
                   const Bucket& bucket) {
  const auto is_valid = [&](const KernelConfig& config) {
    return !why_rejected(problem, config, target.arch).has_value();
  };
  return store.find(target.device, std::string(target.arch.name), target.sm_count, bucket, is_valid);
}

bool is_obstacle(const Error& error) {
  return error.code() == ErrorCode::compile || error.code() == ErrorCode::unavailable;
}

std::string summary(const Error& error) {
  if (const auto* refused = dynamic_cast<const KernelRefused*>(&error)) return refused->reason();
  const std::string_view message = error.what();
  return std::string(message.substr(0, message.find('\n')));
}

ConfigChoice conversion_of(const KernelConfig& summing) {
  return {kind_of(summing).conversion(summing), ConfigOrigin::heuristic, "goes with the kernel that sums",
          std::nullopt};
}

void warn_of_alternative(const PlannedProblem& problem, const ConfigChoice& wanted,
                         const ConfigChoice& runs) {
  const std::string kernel = fmt::format("{} with {}", to_string(traits_of(problem)), to_string(runs.config));
  warn_once(fmt::format("{} for {}", kernel, to_string(wanted.config)),
            fmt::format("{} runs: {}", kernel, runs.reason));
}

std::vector<PossibleChoice> ConfigChooser::recorded_choices(const PlannedProblem& problem,
                                                            const Target& target, KernelPass pass) const {
  std::vector<PossibleChoice> all;
  if (settings_.tune == TuneMode::off) return all;
  for (const Lookup& found :
       store_.of_traits(bucket_of(problem, pass).traits, pass, std::string(target.arch.name))) {
    const PlannedProblem p = problem_of(found.record.bucket, problem);
    if (why_rejected(p, found.record.config, target.arch)) continue;
    all.push_back({p, follow(found, found.record.bucket, target.arch, {})});
  }
  return all;
}

std::vector<PossibleChoice> ConfigChooser::every_choice(const PlannedProblem& problem, const Target& target,
                                                        KernelPass pass) const {
  std::vector<PossibleChoice> all;
  if (!has_kernel(problem, target, pass)) return all;
  const auto add = [&](const PlannedProblem& p, ConfigChoice choice) {
    const auto same = [&](const PossibleChoice& known) { return known.choice.config == choice.config; };
    if (choice.record || std::ranges::none_of(all, same)) all.push_back({p, std::move(choice)});
  };
  if (settings_.pinned && (pins(pass) || pass == KernelPass::forward)) {
    const PlannedProblem p = problem.normalized();
    add(p, pinned(p, target));
    return all;
  }
  for (auto& [p, choice] : recorded_choices(problem, target, pass)) add(p, std::move(choice));
  for (const PlannedProblem& p : heuristic_cases(problem, target.arch, pass)) {
    const ConfigChoice choice = guess(p, target, pass, {});
    add(p, choice);
    if (auto of_partial = for_partial_mask(choice, p, target)) add(p, *std::move(of_partial));
  }
  return all;
}

std::vector<ConfigChoice> ConfigChooser::alternatives(const ConfigChoice& choice,
                                                      const PlannedProblem& problem, const Target& target) {
  std::vector<ConfigChoice> choices;
  if (choice.origin == ConfigOrigin::pinned) return choices;
  for (const HeuristicChoice& other : heuristic_choices(problem, target.arch, pass_of(choice.config))) {
    if (other.config == choice.config) continue;
    choices.push_back({other.config, ConfigOrigin::heuristic, other.reason, std::nullopt});
  }
  return choices;
}

std::optional<ConfigChoice> ConfigChooser::for_partial_mask(const ConfigChoice& choice,
                                                            const PlannedProblem& problem,
                                                            const Target& target) {
  const auto config_of = kind_of(choice.config).config_for_partial_masks;
  if (choice.origin != ConfigOrigin::heuristic || choice.config.key_map == 0 || config_of == nullptr)
    return std::nullopt;
  const std::optional<KernelConfig> config = config_of(problem, target.arch);
  if (!config || *config == choice.config || why_rejected(problem, *config, target.arch)) return std::nullopt;
  return ConfigChoice{*config, ConfigOrigin::heuristic,
                      "the table's entry for masks that show most of their blocks in part", std::nullopt};
}

ConfigChoice ConfigChooser::guess(const PlannedProblem& problem, const Target& target, KernelPass pass,
                                  const std::string& because) {
  const std::vector<HeuristicChoice> choices = heuristic_choices(problem, target.arch, pass);
  if (choices.empty())
    throw Unavailable(fmt::format("no kernel of pass {} computes \"{}\" on {}", word_of(pass),
                                  to_string(problem), target.arch.name));
  HeuristicChoice choice = choices.front();
  if (!because.empty()) choice.reason += "; " + because;
  return {choice.config, ConfigOrigin::heuristic, choice.reason, std::nullopt};
}

ConfigChoice ConfigChooser::pinned(const PlannedProblem& problem, const Target& target) const {
  const KernelConfig& config = *settings_.pinned;
  if (auto reason = why_rejected(problem, config, target.arch)) {
    throw InvalidRequest(
        {{settings_.pinned_by, to_string(config),
          fmt::format("cannot compute \"{}\" on {}: {}", to_string(problem), target.arch.name, *reason)}});
  }
  return {config, ConfigOrigin::pinned, "pinned by " + settings_.pinned_by, std::nullopt};
}

bool ConfigChooser::pin_computes(const PlannedProblem& problem, const Target& target) const {
  return pins(KernelPass::forward) && !why_rejected(problem, *settings_.pinned, target.arch);
}

bool ConfigChooser::has_kernel(const PlannedProblem& problem, const Target& target, KernelPass pass) const {
  if (pins(pass)) return true;
  const bool pins_half = pins(KernelPass::dk) || pins(KernelPass::dv);
  if (pass == KernelPass::dk_dv && pins_half) return false;
  if (sums_dq(pass) && (pins_half || pins(KernelPass::dk_dv) || pins(KernelPass::dq))) return false;
  return !heuristic_choices(problem, target.arch, pass).empty();
}

ConfigChoice ConfigChooser::choose(const PlannedProblem& problem, const Target& target, const Search& search,
                                   KernelPass pass) {
  if (problem.batch_invariant) return fixed(problem, target, pass);
  if (pins(pass)) return pinned(problem, target);
  if (settings_.tune == TuneMode::off) return guess(problem, target, pass, "tuning is off");
  const Bucket bucket = bucket_of(problem, pass);
  const Lookup lookup = find_record(store_, problem, target, bucket);
  std::string obstacle;
  const bool may_search = lookup.match != Match::exact && settings_.tune == TuneMode::now && search;
  if (may_search && can_be_tuned(traits_of(problem), target.arch, pass)) {
    if (auto choice = measure(problem, target, bucket, search, obstacle)) return *choice;
  }
  if (lookup.match != Match::none) return follow(lookup, bucket, target.arch, obstacle);
  return guess(problem, target, pass, obstacle.empty() ? "no tuning record" : "not measured: " + obstacle);
}

ConfigChoice ConfigChooser::fixed(const PlannedProblem& problem, const Target& target,
                                  KernelPass pass) const {
  if (pins(pass)) return pinned(problem, target);
  const std::string who = problem.batch_invariant ? "batch_invariant follows" : "bitwise gradients follow";
  ConfigChoice choice = guess(problem, target, pass, who + " no measurement");
  // The choice must not depend on sizes: another kernel would give other bits.
  if (const auto reason = why_rejected(problem, choice.config, target.arch))
    throw InvalidRequest({{"batch_invariant", "true", "must be false for these sizes: " + *reason}});
  return choice;
}

std::optional<ConfigChoice> ConfigChooser::measure(const PlannedProblem& problem, const Target& target,
                                                   const Bucket& bucket, const Search& search,
                                                   std::string& obstacle) {
  if (settings_.jit == JitMode::off) {
    obstacle = "FA2_JIT=off forbids compiling candidates";
    return std::nullopt;
  }
  const std::lock_guard lock(measuring_);
  // Another thread may have searched while this one waited.
  const Lookup lookup = find_record(store_, problem, target, bucket);
  if (lookup.match == Match::exact) return follow(lookup, bucket, target.arch, {});
  const auto [known, is_new] = unmeasurable_.try_emplace(target.device + ", " + to_string(bucket));
  if (is_new) {
    try {
      const TuneReport report = search_and_record(problem, target, bucket, search);
      if (compares(report)) {
        unmeasurable_.erase(known);
        return ConfigChoice{report.best, ConfigOrigin::tuned_now, summary(report), std::nullopt};
      }
      known->second = fmt::format("only {} of {} candidates could be timed in {:.1f} s", timed(report),
                                  report.candidates.size(), report.seconds);
    } catch (const std::exception& error) {
      known->second = error.what();
    }
    log().warn("no configuration was measured for {}: {}", known->first, known->second);
  }
  obstacle = known->second;
  return std::nullopt;
}

bool ConfigChooser::may_learn(const PlannedProblem& problem, const Target& target, KernelPass pass) const {
  return learns() && !problem.batch_invariant && !pins(pass) &&
         can_be_tuned(traits_of(problem), target.arch, pass) &&
         find_record(store_, problem, target, bucket_of(problem, pass)).match != Match::exact;
}

bool ConfigChooser::learn(const PlannedProblem& problem, const Target& target, const Search& search,
                          KernelPass pass) {
  const std::lock_guard lock(measuring_);
  const Bucket bucket = bucket_of(problem, pass);
  const TuningStore on_disk(store_.file());
  if (!may_learn(problem, target, pass) ||
      find_record(on_disk, problem, target, bucket).match == Match::exact)
    return false;
  const TuneReport report = search(problem);
  if (!compares(report)) return false;
  const TuningRecord record = record_of(bucket, target, report);
  if (settings_.tune == TuneMode::adaptive) {
    store_.add(record);
  } else {
    store_.publish(record);
  }
  return true;
}

TuneReport ConfigChooser::tune(const PlannedProblem& problem, const Target& target, const Search& search,
                               KernelPass pass) {
  const std::lock_guard lock(measuring_);
  return search_and_record(problem, target, bucket_of(problem, pass), search);
}

TuneReport ConfigChooser::search_and_record(const PlannedProblem& problem, const Target& target,
                                            const Bucket& bucket, const Search& search) {
  TuneReport report = search(problem);
  report.problem = problem;
  report.options = problem;
  report.bucket = to_string(bucket);
  if (compares(report)) store_.add(record_of(bucket, target, report));
  return report;
}

}  // namespace fa2
