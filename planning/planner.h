// The choice of a plan's kernels, and their source: a Context makes a Planner, and plans ask it.
#pragma once

#include <autotune/config_choice.h>
#include <fa2/report.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <runtime/kernel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fa2 {

/// A kernel, and its part of the report of every plan that launches it.
struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;  ///< null if it was only compiled, for explain()
  KernelReport report;                   ///< a Planner adds the config and its origin
  std::string notes;                     ///< see Explanation
};

/// Chooses kernels for one problem on one target.
struct Planner {
  PlannedProblem problem;  ///< valid and normalized
  Target target;
  ConfigChooser& chooser;
  /// Loads the kernel of a spec, or for explain() compiles it.
  std::function<LoadedKernel(const KernelSpec&)> get;
  /// Returns the choices that may replace one whose kernel does not compile or is missing.
  std::function<std::vector<ConfigChoice>(const PlannedProblem&, const ConfigChoice&)> alternatives;
  /// Returns the function that measures a pass; an empty one if the plan must not measure it.
  std::function<Search(const PlannedProblem&, KernelPass)> search = [](const PlannedProblem&, KernelPass) {
    return Search();
  };

  /// Whether the mask's text shows most of its blocks in part, as far as anybody knows.
  bool mask_is_partial = false;

  /// Returns a planner like this one, for another problem.
  Planner of(const PlannedProblem& other) const;
  /// Returns the config that the chooser wants for a pass.
  ConfigChoice choose(KernelPass pass) const {
    return chooser.choose(problem, target, search(problem, pass), pass);
  }
  /// Returns the SMs that launches may use; 0 if the target's number is unknown. @throws InvalidRequest if sm_margin leaves none.
  int usable_sms() const;
  /// Returns the kernel of exactly this choice.
  LoadedKernel pick(const ConfigChoice& choice) const;
  /// Returns the kernel of `choice`, else of the first alternative that can be had. @throws the error of `choice`.
  LoadedKernel pick_first(const ConfigChoice& choice) const;
};

/// Returns the report of a plan of these kernels; `notes` precede the kernels' own.
Explanation explanation_of(const Planner& planner, const std::vector<LoadedKernel>& kernels,
                           std::string notes);

/// Returns why sm_margin does not limit a kernel of a plan; empty if it does, or is 0.
std::string margin_note(const AttentionProblem& problem, const KernelConfig& config);

/// Returns both, one per line; either may be empty.
std::string joined_notes(const std::string& notes, const std::string& more);

}  // namespace fa2
