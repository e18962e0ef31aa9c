// The inside of a Context.
#pragma once

#include <api/memo.h>
#include <api/settings.h>
#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/kernel_source.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel.h>
#include <runtime/kernel_cache.h>
#include <runtime/launch_counters.h>
#include <runtime/log.h>
#include <runtime/stream_memory.h>

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// A normalized problem, with its plan's options, on a device.
struct PlanKey {
  PlannedProblem problem;
  int device = 0;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const {
    return hash_value(key.problem) ^ static_cast<std::size_t>(key.device);
  }
};

/// The same with which gradients are computed.
struct BackwardKey {
  PlanKey plan;
  Gradients gradients;

  friend bool operator==(const BackwardKey&, const BackwardKey&) = default;
};

struct BackwardKeyHash {
  std::size_t operator()(const BackwardKey& key) const {
    const Gradients& g = key.gradients;
    return PlanKeyHash{}(key.plan) * 16 + g.d_sinks * 8u + g.dq * 4u + g.dk * 2u + g.dv;
  }
};

/// Whether a forward has anything to compute.
inline bool has_output(const AttentionProblem& problem) {
  return problem.batch > 0 && problem.seqlen_q > 0;
}

/// Why another than the fast kernel runs a call whose arguments keep no more than `options`; empty if none does.
std::string_view reason_for(const PlanOptions& options);

/// @throws InvalidRequest with all that is wrong with the problem, its options, and of it for a backward.
void require_valid_backward(const PlannedProblem& problem, const Gradients& gradients = {});

/// Returns `gradients` with the determinism that the problem promises: batch_invariant takes bitwise ones.
Gradients kept_by(const AttentionProblem& problem, Gradients gradients);

/// What a call says on a miss under capture. @throws Unavailable.
[[noreturn]] void throw_capturing(const AttentionProblem& problem);

/// @throws InvalidRequest with `found` and, if there is no arch of that name, that.
const Arch& require_arch(const std::string& name, std::vector<Violation> found);

/// A line each; either may be empty.
std::string joined_notes(const std::string& notes, const std::string& more);

/// All but its config and the reasons for it.
KernelReport report_of(const KernelSource& source, const CachedKernel& kernel);

/// With the choice that it comes from.
KernelReport reported(KernelReport kernel, const ConfigChoice& choice);

/// A kernel on a device, and what every plan that runs it says of it.
struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  KernelReport report;  ///< all but its config and the reasons for it
  std::string notes;    ///< see Explanation
};

/// Thread-safe.
struct Context::Impl {
  explicit Impl(const ContextOptions& options);

  /// The memoised plan of a valid, normalized problem, made now if need be. `notes`: see Explanation.
  AttentionPlan plan(const PlannedProblem& problem, int ordinal, const std::string& notes);

  /// The same of a backward, whose problem is valid for one.
  BackwardPlan backward_plan(const PlannedProblem& problem, int ordinal, const Gradients& gradients,
                             const std::string& notes);

  /// build_one() of `choice`, or of what serves in its place.
  template <class Build>
  auto build(const PlannedProblem& problem, const Target& target, const ConfigChoice& choice,
             const Build& build_one) {
    return build_first(
        problem, choice, [&] { return alternatives(choice, problem, target); }, build_one);
  }

  /// Loaded now, or before.
  LoadedKernel load_kernel(const KernelSpec& spec, const Device& gpu);
  bool has_loaded(const KernelSpec& spec, const Device& gpu);
  /// The same for a function that has one kernel and no plan: `name` is "merge". @throws Unavailable if the kernel would have
  /// to be loaded while `stream` captures.
  LoadedKernel load_kernel_of(std::string_view name, const KernelSpec& spec, const Device& gpu,
                              Stream stream);

  /// Measures the kernels of a pass on the GPU. None where there is nothing to measure.
  Search search_on(const Device& gpu, const PlannedProblem& problem, KernelPass pass, TuneScope scope);

  /// Of which kernels a backward's plan is made: of one that sums dQ, if there is one, or of those that sum nothing.
  enum class Passes : std::uint8_t { fewest, apart };
  /// Of the kernels of a backward's plan, in the order of their launches.
  std::vector<KernelPass> backward_passes(const PlannedProblem& problem, const Gradients& gradients,
                                          const Target& target, Passes passes = Passes::fewest) const;
  /// Whether one of them sums dQ, and others may stand in for it.
  bool may_be_apart(const PlannedProblem& problem, const Gradients& gradients, const Target& target) const;
  /// Those of them that can be tuned. @throws InvalidRequest of bitwise gradients.
  std::vector<KernelPass> tuned_passes(const PlannedProblem& problem, const Gradients& gradients,
                                       const Target& target) const;

  /// build(passes, notes). Where it has a kernel that sums dQ and that one cannot be had, which is not pinned, the same of
  /// those that compute each gradient apart; a warning and a note say so. @throws the first error if neither can be built.
  template <class Build>
  auto build_summing_or_apart(const PlannedProblem& problem, const Gradients& gradients, const Target& target,
                              const std::string& notes, const Build& build) {
    if (!may_be_apart(problem, gradients, target)) return build(Passes::fewest, notes);
    std::exception_ptr failure;
    std::string note = "instead of a kernel that sums dQ those run that compute each gradient apart: ";
    try {
      return build(Passes::fewest, notes);
    } catch (const Error& error) {
      if (!is_obstacle(error)) throw;
      failure = std::current_exception();
      note += summary(error);
    }
    try {
      auto built = build(Passes::apart, joined_notes(notes, note));
      warn_once(to_string(problem) + note, to_string(problem) + ": " + note);
      return built;
    } catch (const Error& error) {
      if (!is_obstacle(error)) throw;
      std::rethrow_exception(failure);
    }
  }

  /// build_one() of what was chosen for each of them, or of what serves in its place. `search_of`: a pass. Bitwise
  /// gradients follow no measurement: it would depend on the batch.
  template <class SearchOf, class Build>
  void build_backward(const PlannedProblem& problem, const Gradients& gradients, Passes passes,
                      const Target& target, const SearchOf& search_of, const Build& build_one) {
    ConfigChoice runs;
    const auto build_this = [&](const ConfigChoice& choice) {
      build_one(choice);
      return choice;
    };
    for (const KernelPass pass : backward_passes(problem, gradients, target, passes)) {
      if (pass == KernelPass::dq_convert) {
        build_one(conversion_of(runs.config));
      } else {
        const ConfigChoice choice = gradients.determinism == Determinism::bitwise
                                        ? chooser.fixed(problem, target, pass)
                                        : chooser.choose(problem, target, search_of(pass), pass);
        runs = build(problem, target, choice, build_this);
      }
    }
  }

  Settings settings;
  std::shared_ptr<Compiler> compiler;
  KernelCache kernels;
  TuningStore records;
  ConfigChooser chooser;
  /// Serving meets ever new lengths: what has long not been asked for is forgotten. It costs a new plan, no
  /// load.
  Memo<PlanKey, AttentionPlan, PlanKeyHash> plans{4096};
  Memo<BackwardKey, BackwardPlan, BackwardKeyHash> backward_plans{4096};
  /// By spec and device. Never forgotten: there are few, and loading is dear.
  Memo<std::string, std::shared_ptr<const LoadedKernel>> loaded{std::numeric_limits<std::size_t>::max()};
  Memo<int, std::shared_ptr<LaunchCounters>> counters{
      std::numeric_limits<std::size_t>::max()};  ///< of tiles, by device
  Memo<int, std::shared_ptr<LaunchCounters>> part_counters{
      std::numeric_limits<std::size_t>::max()};  ///< of tiles' parts, by device
  Memo<int, std::shared_ptr<const ScratchPool>> scratch_pools{
      std::numeric_limits<std::size_t>::max()};  ///< by device

 private:
  std::shared_ptr<LaunchCounters> counters_for(const KernelConfig& config, const Device& gpu);
  std::shared_ptr<const ScratchPool> scratch_pool(const Device& gpu);
  /// Whether runs of a plan read what tables of sequences hold.
  bool checks_tables(const AttentionProblem& problem, const Device& gpu) const;
  BackwardPlan make_backward_plan(const PlannedProblem& problem, int ordinal, const Gradients& gradients,
                                  const std::string& notes);
  /// A plan for `gradients` of these kernels.
  BackwardPlan backward_plan_with(const PlannedProblem& problem, const Device& gpu,
                                  const Gradients& gradients, Passes passes, const std::string& notes);
  AttentionPlan make_plan(const PlannedProblem& problem, int ordinal, const std::string& notes);
  /// What may run in place of `choice`; read from the caches where nothing may be compiled.
  std::vector<ConfigChoice> alternatives(const ConfigChoice& choice, const PlannedProblem& problem,
                                         const Target& target) const;
  AttentionPlan plan_with(const ConfigChoice& choice, const PlannedProblem& problem, const Device& gpu,
                          const std::string& notes);
};

}  // namespace fa2
