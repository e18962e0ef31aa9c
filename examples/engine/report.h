// The table and the JSON document: steps, times, kernels.
#pragma once

#include <fa2/report.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "engine.h"
#include "kernel_log.h"
#include "options.h"

namespace example {

/// The sums of some steps.
struct StepSums {
  std::int64_t steps = 0;
  std::int64_t decode_tokens = 0;
  std::int64_t prefill_tokens = 0;
  double milliseconds = 0;  ///< of append() and attention

  void add(const StepSums& other);
  std::int64_t tokens() const { return decode_tokens + prefill_tokens; }
  double tokens_per_second() const;
};

/// Everything about one run.
struct Report {
  StepSums graphs, direct;  ///< steps that only decode: by CUDA graphs, and by direct launches
  StepSums mixed;           ///< steps with prefill chunks
  std::string device, arch, attention;
  bool on_gpu = false;
  std::vector<fa2::KernelReport> kernels;  ///< different kernels of the plans; append()'s has no report
  std::int64_t compiled = 0;               ///< kernels compiled before the first step
  std::int64_t found = 0;                  ///< kernels found in packs and caches
  std::int64_t plans = 0;                  ///< plans made before the first step
  std::int64_t graph_count = 0;
  std::int64_t preemptions = 0;
  double seconds = 0;  ///< of all steps, the CPU's part included
  std::optional<Check> check;

  /// Records device, plans and kernels. Must be called before the first step.
  void describe(const StepAttention& step_attention, const KernelLog& log);
  void add(const StepReport& step);
  StepSums all() const;
  /// Returns complaints unless the log shows the plans of describe(), and no plan or compilation since.
  std::vector<std::string> complaints_about_kernels(const KernelLog& log) const;

 private:
  std::int64_t expected_plans_ = 0;  ///< different problems among the explanations
};

void show(const Report& report);
nlohmann::ordered_json document(const Report& report, const Options& options);

}  // namespace example
