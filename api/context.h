// The members of a Context.
#pragma once

#include <api/memo.h>
#include <api/parallel_plans.h>
#include <api/parallel_windows.h>
#include <api/requests.h>
#include <api/settings.h>
#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/kernel_source.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <planning/plan.h>
#include <planning/planner.h>
#include <planning/row_kernels.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_cache.h>
#include <runtime/launch_counters.h>
#include <runtime/stream_memory.h>
#include <runtime/task_queue.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// A normalized problem with its plan's options, on a device.
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

/// A PlanKey, and the gradients that the plan computes.
struct BackwardKey {
  PlanKey plan;
  Gradients gradients;

  friend bool operator==(const BackwardKey&, const BackwardKey&) = default;
};

struct BackwardKeyHash {
  std::size_t operator()(const BackwardKey& key) const {
    std::size_t hash = PlanKeyHash{}(key.plan);
    each_row<Gradients>(
        [&](const auto& row) { hash = hash * 2 + static_cast<std::size_t>(key.gradients.*row.member); });
    return hash;
  }
};

/// The key of the launch counters with `words` words per launch on a device.
struct CountersKey {
  int device = 0;
  std::uint32_t words = 1;

  friend bool operator==(const CountersKey&, const CountersKey&) = default;
};

struct CountersKeyHash {
  std::size_t operator()(const CountersKey& key) const {
    return static_cast<std::size_t>(key.device) << 16 ^ key.words;
  }
};

/// A pass of a problem on a device, which is to be measured.
struct Lesson {
  PlannedProblem problem;  ///< valid and normalized
  int device = 0;
  KernelPass pass = KernelPass::forward;
};

/// Returns why `options` rule out the fast kernel; empty if they do not.
std::string_view reason_for(const PlanOptions& options);

/// @throws InvalidRequest with everything wrong with the problem and its options, by themselves and for a backward.
void require_valid_backward(const PlannedProblem& problem, const Gradients& gradients = {});

/// Returns whether a search could measure the pass of the problem.
bool is_measurable(const PlannedProblem& problem, KernelPass pass);

/// Says that the problem has no plan yet and that the stream is capturing. @throws Unavailable.
[[noreturn]] void throw_capturing(const AttentionProblem& problem);

/// Returns the arch. @throws InvalidRequest with `found` and, if no arch has this name, with that.
const Arch& require_arch(const std::string& name, std::vector<Violation> found);

/// Thread-safe.
struct Context::Impl {
  /// How long a program must run before it learns.
  static constexpr std::chrono::seconds kPatience{3};

  explicit Impl(const ContextOptions& options);

  /// Returns the memoised plan of a valid, normalized problem; makes it if there is none. `notes`: see Explanation. `keeps_lse`: the
  /// caller wants the LSE, so that a backward may follow.
  AttentionPlan plan(const PlannedProblem& problem, int ordinal, const std::string& notes,
                     bool keeps_lse = false);

  /// Returns the plan of a valid call that has an output. @throws Unavailable if there is none yet and the stream captures.
  AttentionPlan plan_of_call(const PlannedProblem& problem, const AttentionArgs& args, int ordinal,
                             Stream stream);

  /// Like plan_of_call(), for a backward, whose problem alone must be valid; none if there is nothing to compute. @throws
  /// InvalidRequest, too.
  std::optional<BackwardPlan> backward_plan_of_call(const AttentionProblem& problem, const BackwardArgs& args,
                                                    const BackwardOperands& operands, Stream stream);

  /// Like plan(), for a backward. The problem must be valid for one.
  BackwardPlan backward_plan(const PlannedProblem& problem, int ordinal, const Gradients& gradients,
                             const std::string& notes);

  /// Returns a planner that compiles kernels without loading them.
  Planner planner_for(const PlannedProblem& problem, const Target& target);

  /// Returns the kernel, loaded now or before. `before_compiling`: see KernelCache::get().
  LoadedKernel load_kernel(const KernelSpec& spec, const Device& gpu,
                           const std::function<void()>& before_compiling = {});
  /// Like load_kernel(), for an operation whose plans are not memoised, such as merge().
  /// @throws Unavailable if `stream` captures and the kernel is not loaded yet.
  LoadedKernel load_kernel_of(Operation operation, const RowKernel& kernel, const Device& gpu, Stream stream);

  /// Returns the scratch memory of a device, whose context must be current.
  std::shared_ptr<const ScratchPool> scratch_pool(const Device& gpu) {
    return scratch_pools.get(gpu.ordinal, [] { return std::make_shared<const ScratchPool>(); });
  }

  /// Returns how the kernels of a pass are measured on the GPU; an empty Search if there is nothing to measure.
  Search search_on(const Device& gpu, const PlannedProblem& problem, KernelPass pass, TuneScope scope);

  /// Puts the pass in line for study(), if it should and can be measured.
  void note(const Device& gpu, const PlannedProblem& problem, KernelPass pass);
  /// Measures a lesson beside the program's own work.
  void study(const Lesson& lesson, const std::stop_token& stop);

  /// Compiles likely_next() in the background, once for all sizes of the problem.
  void compile_ahead(const Device& gpu, const PlannedProblem& problem, bool keeps_lse);

  Settings settings;
  std::shared_ptr<Compiler> compiler;
  RequestLog requests;  ///< FA2_LOG_REQUESTS
  Stores stores;        ///< packs in memory, then FA2_CACHE_PATH
  KernelCache kernels;
  TuningStore records;
  ConfigChooser chooser;
  /// Plans. The memo drops plans that were not used for long, because a server sees new lengths all the time.
  /// A dropped plan is made again, but its kernels stay loaded.
  Memo<PlanKey, AttentionPlan, PlanKeyHash> plans{4096};
  Memo<BackwardKey, BackwardPlan, BackwardKeyHash> backward_plans{4096};
  /// Kernels by spec and device. Never forgotten: there are few, and loading is expensive.
  Memo<std::string, std::shared_ptr<const LoadedKernel>> loaded{std::numeric_limits<std::size_t>::max()};
  /// Memory for calls without a workspace: counters, and one scratch pool per device.
  Memo<CountersKey, std::shared_ptr<LaunchCounters>, CountersKeyHash> counters{
      std::numeric_limits<std::size_t>::max()};
  Memo<int, std::shared_ptr<const ScratchPool>> scratch_pools{std::numeric_limits<std::size_t>::max()};
  ParallelPlans parallel_plans;
  ParallelWindows parallel_windows;
  /// Last, because their threads use all other members until they are destroyed.
  TaskQueue lessons{kPatience};
  TaskQueue ahead{std::chrono::milliseconds(0)};

 private:
  /// Returns a planner that loads kernels on the GPU, and measures candidates there.
  Planner planner_on(const Device& gpu, const PlannedProblem& problem,
                     const std::function<void()>& before_compiling = {});
  /// Returns the plan, with its constant map, and with tiles that suit what the mask's text shows.
  Plan forward_plan(Planner planner, const std::string& notes, const Device& gpu);
  /// Completes a plan for the GPU: the check of its tables, and memory for calls without a workspace. Logs the plan as `what`.
  std::shared_ptr<const Plan> completed(Plan plan, const Device& gpu, std::string_view what);
  /// Returns the choices that may run instead of `choice`. If nothing may be compiled, these are cached
  /// kernels.
  std::vector<ConfigChoice> alternatives(const ConfigChoice& choice, const PlannedProblem& problem,
                                         const Target& target) const;
};

}  // namespace fa2
