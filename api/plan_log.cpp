// Plans as lines of the log.
#include <api/plan_log.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <runtime/log.h>

#include <algorithm>

namespace fa2 {

std::string plan_line(std::string_view what, const Explanation& plan) {
  std::string line =
      fmt::format("{} of \"{}\" on {} ({}):", what, to_string(PlannedProblem(plan.problem, plan.options)),
                  plan.device, plan.arch);
  for (const KernelReport& kernel : plan.kernels) {
    line += fmt::format("{} {} {}, {} ({}), {}", &kernel == plan.kernels.data() ? "" : ";",
                        to_string(kernel.config.kernel), to_string(kernel.config),
                        to_string(kernel.config_origin), kernel.config_reason, to_string(kernel.origin));
  }
  if (plan.kernels.empty()) line += " no kernel";
  std::ranges::replace(line, '\n', ' ');  // because reasons may quote compilers
  return line;
}

void log_plan(std::string_view what, const Explanation& plan) {
  if (log().should_log(spdlog::level::debug)) log().debug("{}", plan_line(what, plan));
}

}  // namespace fa2
