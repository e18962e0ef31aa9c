// What a Context measures in the background.
#include <api/context.h>
#include <autotune/candidates.h>
#include <autotune/tuner.h>
#include <fa2/errors.h>
#include <planning/trials/gpu_trial.h>
#include <runtime/background.h>
#include <runtime/log.h>
#include <runtime/parallel.h>
#include <runtime/task_queue.h>

#include <algorithm>
#include <exception>
#include <string>

namespace fa2 {
namespace {

constexpr double kStudySeconds = 90;  ///< of one lesson, at most
constexpr double kGpuShare = 0.05;    ///< of the GPU's time while candidates are measured
/// Tensors larger than any L2, and little beside a model; samples that fit between the program's kernels.
constexpr TrialEffort kEffort{.bytes = 1 << 28, .sample_us = 60, .launches = 1};
constexpr int kCoresPerCandidate = 4;  ///< of the process's cores, one in so many compiles candidates

TunerOptions options_of_study(const std::stop_token& stop) {
  TunerOptions options;
  options.budget_seconds = kStudySeconds;
  options.compile_threads = std::max(1, usable_cores() / kCoresPerCandidate);
  options.gpu_share = kGpuShare;
  options.stop = stop;
  return options;
}

}  // namespace

void Context::Impl::note(const Device& gpu, const PlannedProblem& problem, KernelPass pass) {
  if (!chooser.learns() || gpu.arch.interpreted || !is_measurable(problem, pass)) return;
  if (!lessons.is_new(fmt::format("{}, {}", gpu.ordinal, to_string(bucket_of(problem, pass))))) return;
  if (!chooser.may_learn(problem, target_of(gpu), pass)) return;
  lessons.add([this, lesson = Lesson{problem, gpu.ordinal, pass}](const std::stop_token& stop) {
    try {
      study(lesson, stop);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      log().warn("nothing was learned about {}: {}", to_string(lesson.problem), error.what());
    }
  });
}

void Context::Impl::study(const Lesson& lesson, const std::stop_token& stop) {
  const Device& gpu = device(lesson.device);
  start_nvrtc(gpu.arch);
  stop_tasks_at_exit();
  work_in_background();
  const Search search_beside_others = [&](const PlannedProblem& problem) -> TuneReport {
    const auto candidates = search_candidates(problem, gpu.arch, TuneScope::likely, lesson.pass);
    GpuTrial trial(problem, gpu, candidates, kernels, kEffort);
    TuneReport report = search(candidates, trial, options_of_study(stop));
    if (stop.stop_requested()) return {};
    log().debug("learned for \"{}\": {}", to_string(problem), summary(report));
    return report;
  };
  if (!chooser.learn(lesson.problem, target_of(gpu), search_beside_others, lesson.pass)) return;
  if (settings.tune != TuneMode::adaptive) return;
  plans.clear();
  backward_plans.clear();
}

}  // namespace fa2
