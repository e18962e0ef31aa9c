// Plans every request with a cache that only looks.
#include <api/coverage.h>
#include <autotune/config_choice.h>
#include <fmt/format.h>
#include <generator/key_map_layout.h>
#include <planning/backward.h>
#include <planning/dropout_mask.h>
#include <planning/forward.h>
#include <planning/planner.h>
#include <planning/row_kernels.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace fa2 {
namespace {

enum class Found : std::uint8_t { kernel, refusal, nothing };

/// Looks kernels up and counts those that are missing. Thread-safe: a backward asks for its kernels at once.
class Lookups {
 public:
  explicit Lookups(const Stores& stores) : stores_(stores) {}

  /// Counts one need for a kernel. @throws KernelRefused if the stores have only its refusal.
  void need(const KernelSpec& spec) {
    const std::string name =
        fmt::format("{} {} {}", to_string(spec.traits), spec.arch.name, to_string(spec.config));
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = kernels_.try_emplace(name);
    Kernel& kernel = place->second;
    if (is_new) kernel = look_up(render(spec));
    if (kernel.found == Found::refusal) throw KernelRefused(name + " was refused", "was refused", "", "");
    if (kernel.found == Found::nothing) ++missing_[kernel.missing].requests;
  }

  std::size_t kernels() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        kernels_, [](const auto& entry) { return entry.second.found != Found::refusal; }));
  }
  std::vector<MissingKernel> missing() && { return std::move(missing_); }

 private:
  struct Kernel {
    Found found = Found::nothing;
    std::size_t missing = 0;  ///< index into missing_ if nothing was found
  };

  Kernel look_up(const KernelSource& source) {
    const std::string arch(source.arch.name);
    Found found = Found::nothing;
    for (const auto& store : stores_) {
      const auto binary = store->load(arch, source.key);
      if (binary && binary->refused.empty()) return {Found::kernel};
      if (binary) found = Found::refusal;
    }
    if (found == Found::nothing)
      missing_.push_back({arch, source.key, source.spec, source.precompile_command, 0});
    return {found, missing_.size() - 1};
  }

  const Stores& stores_;
  std::mutex mutex_;
  std::map<std::string, Kernel>
      kernels_;  ///< by traits, arch and config, because rendering takes a millisecond
  std::vector<MissingKernel> missing_;
};

Planner planner_of(const PlanRequest& request, ConfigChooser& chooser, Lookups& lookups) {
  Planner planner{.problem = request.problem,
                  .target = request.target,
                  .chooser = chooser,
                  .get = {},
                  .alternatives = {}};
  planner.get = [&lookups](const KernelSpec& spec) -> LoadedKernel {
    lookups.need(spec);
    return {};
  };
  planner.alternatives = [&request](const PlannedProblem& problem, const ConfigChoice& choice) {
    return ConfigChooser::alternatives(choice, problem, request.target);
  };
  return planner;
}

/// Needs the kernels of a forward, whatever the mask's text shows.
void need_forward(Planner planner) {
  forward_kernels(planner);
  if (!has_mask_text(planner.problem)) return;
  planner.mask_is_partial = true;
  forward_kernels(planner);
}

/// Needs every kernel of the request.
void need_kernels(const PlanRequest& request, ConfigChooser& chooser, Lookups& lookups) {
  const auto& [operation, problem, gradients, target] = request;
  std::string notes;
  switch (operation) {
    case Operation::forward:
      if (has_output(problem)) need_forward(planner_of(request, chooser, lookups));
      return;
    case Operation::backward:
      backward_kernels(planner_of(request, chooser, lookups), gradients, notes);
      if (has_gradient_parts(problem)) lookups.need(sum_kernel(problem).spec(target.arch));
      return;
    case Operation::append:
      return lookups.need(append_kernel(problem).spec(target.arch));
    case Operation::merge:
      if (problem.float32_out) lookups.need(put_kernel().spec(target.arch));
      return lookups.need(merge_kernel(problem).spec(target.arch));
    case Operation::dropout_mask:
      return lookups.need(dropout_mask_kernel().spec(target.arch));
  }
}

}  // namespace

Coverage coverage_of(const std::vector<PlanRequest>& requests, const Stores& stores) {
  TuningStore records("", texts_of(stores), shipped_records());
  const ChoiceSettings settings{.tune = TuneMode::stored, .jit = JitMode::off};
  ConfigChooser chooser(settings, records);
  Lookups lookups(stores);
  Coverage coverage;
  coverage.requests = requests.size();
  for (const PlanRequest& request : requests) {
    try {
      need_kernels(request, chooser, lookups);
    } catch (const Error& error) {
      coverage.impossible.push_back(to_json_line(request) + ": " + error.what());
    }
  }
  coverage.kernels = lookups.kernels();
  coverage.missing = std::move(lookups).missing();
  return coverage;
}

}  // namespace fa2
