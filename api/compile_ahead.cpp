// What a Context compiles in the background.
#include <api/compile_ahead.h>
#include <api/context.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>
#include <runtime/log.h>
#include <runtime/parallel.h>
#include <runtime/task_queue.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace fa2 {
namespace {

constexpr int kCoresPerThread = 4;  ///< the program and its call's own compilation need the others
constexpr int kMaxThreads = 4;      ///< a compilation takes some 60 MB

void append_kernels(const std::vector<PlanRequest>& requests, PrecompileScope scope, ConfigChooser& chooser,
                    std::vector<KernelRequest>& kernels) {
  PrecompileOptions options;
  options.scope = scope;
  for (KernelRequest& kernel : kernel_requests(requests, options, chooser).kernels) {
    if (kernel.row.error.empty()) kernels.push_back(std::move(kernel));
  }
}

/// Returns the request for `queries` queries of `keys` keys.
PlanRequest resized(PlanRequest request, std::int64_t queries, std::int64_t keys) {
  request.problem.seqlen_q = queries;
  request.problem.seqlen_k = keys;
  return request;
}

}  // namespace

std::vector<KernelRequest> likely_next(const PlanRequest& forward, bool keeps_lse, ConfigChooser& chooser) {
  std::vector<KernelRequest> kernels;
  if (keeps_lse && violations_of_backward(forward.problem).empty()) {
    PlanRequest backward = forward;
    backward.operation = Operation::backward;
    append_kernels({backward}, PrecompileScope::given_sizes, chooser, kernels);
    return kernels;
  }
  std::vector<PlanRequest> others = {
      resized(forward, 1, std::max<std::int64_t>(forward.problem.seqlen_k, 1))};
  for (const std::int64_t length : {1024, 4096, 256}) others.push_back(resized(forward, length, length));
  append_kernels(others, PrecompileScope::given_sizes, chooser, kernels);
  append_kernels({forward}, PrecompileScope::any_size, chooser, kernels);
  return kernels;
}

void Context::Impl::compile_ahead(const Device& gpu, const PlannedProblem& problem, bool keeps_lse) {
  if (settings.jit != JitMode::on || gpu.arch.interpreted) return;
  if (!ahead.is_new(fmt::format("{}, {}, {}", gpu.ordinal, to_string(traits_of(problem)), keeps_lse))) return;
  const PlanRequest request{Operation::forward, problem, {}, target_of(gpu)};
  ahead.add([this, request, keeps_lse](const std::stop_token& stop) {
    start_nvrtc(request.target.arch);
    stop_tasks_at_exit();
    const std::vector<KernelRequest> likely = likely_next(request, keeps_lse, chooser);
    log().debug("compiling {} kernels ahead for \"{}\"", likely.size(), to_string(request.problem));
    for_each_index(likely.size(), std::clamp(usable_cores() / kCoresPerThread, 1, kMaxThreads),
                   [&](std::size_t i) {
                     if (!stop.stop_requested()) make_kernel(likely[i], kernels);
                   });
  });
}

}  // namespace fa2
