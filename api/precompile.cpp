// Precompilation needs neither a GPU nor a driver.
#include <api/precompile.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <operation/rules/validate.h>
#include <planning/row_kernels.h>
#include <runtime/interrupt.h>
#include <runtime/parallel.h>

#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fa2 {
namespace {

std::vector<PossibleChoice> choices_of(const PlannedProblem& problem, const Target& target, KernelPass pass,
                                       PrecompileScope scope, ConfigChooser& chooser) {
  if (scope == PrecompileScope::any_size) return chooser.every_choice(problem, target, pass);
  if (!chooser.has_kernel(problem, target, pass)) return {};
  return {{problem, chooser.choose(problem, target, {}, pass)}};
}

/// Returns the new request; null if the kernel has one already.
KernelRequest* add_kernel(const PlannedProblem& problem, ConfigChoice choice, const Target& target,
                          KernelRequests& requests, std::set<std::string>& seen) {
  if (choice.record) requests.records.push_back(*choice.record);
  KernelRequest request;
  request.row.problem = problem;
  request.row.options = problem;
  request.row.arch = target.arch.name;
  request.row.config = choice.config;
  request.row.key = render({traits_of(problem), choice.config, target.arch}).key;
  if (!seen.insert(request.row.key).second) return nullptr;
  request.choice = std::move(choice);
  return &requests.kernels.emplace_back(std::move(request));
}

void add_request(const PlannedProblem& problem, ConfigChoice choice, const Target& target,
                 KernelRequests& requests, std::set<std::string>& seen) {
  if (KernelRequest* request = add_kernel(problem, std::move(choice), target, requests, seen))
    request->alternatives = ConfigChooser::alternatives(request->choice, problem, target);
}

void add_row_kernel(const RowKernel& kernel, const char* reason, const Target& target,
                    KernelRequests& requests, std::set<std::string>& seen) {
  add_kernel(kernel.problem, {kernel.config, ConfigOrigin::heuristic, reason, std::nullopt}, target, requests,
             seen);
}

/// Adds the dq_convert kernels of a kernel that accumulates dQ, and of its alternatives.
void add_conversions(const PlannedProblem& problem, const ConfigChoice& summing, const Target& target,
                     KernelRequests& requests, std::set<std::string>& seen) {
  add_request(problem, conversion_of(summing.config), target, requests, seen);
  for (const ConfigChoice& other : ConfigChooser::alternatives(summing, problem, target))
    add_request(problem, conversion_of(other.config), target, requests, seen);
}

void add_requests(const PlannedProblem& problem, const Arch& arch, const PrecompileOptions& options,
                  ConfigChooser& chooser, KernelRequests& requests, std::set<std::string>& seen) {
  const Target target{arch, "", 0};
  std::vector<KernelPass> passes = {KernelPass::forward};
  if (options.backward) passes.insert(passes.end(), std::begin(kBackwardPasses), std::end(kBackwardPasses));
  try {
    for (const KernelPass pass : passes) {
      for (auto& [of, choice] : choices_of(problem, target, pass, options.scope, chooser)) {
        if (sums_dq(pass)) add_conversions(of, choice, target, requests, seen);
        add_request(of, std::move(choice), target, requests, seen);
      }
    }
    if (options.append)
      add_row_kernel(append_kernel(problem), "the only kernel of append()", target, requests, seen);
    if (options.merge)
      add_row_kernel(merge_kernel(problem), "the only kernel of merge()", target, requests, seen);
  } catch (const Error& error) {
    KernelRequest failed;
    failed.row.problem = problem;
    failed.row.options = problem;
    failed.row.arch = arch.name;
    failed.row.error = error.what();
    requests.kernels.push_back(std::move(failed));
  }
}

PrecompiledKernel make_with(const ConfigChoice& choice, PrecompiledKernel row, KernelCache& cache) {
  const KernelSource source =
      render({traits_of({row.problem, row.options}), choice.config, *find_arch(row.arch)});
  const CachedKernel kernel = cache.get(source);
  row.key = source.key;
  row.config = choice.config;
  row.config_reason = choice.reason;
  row.resources = kernel.binary->resources;
  row.binary_bytes = kernel.binary->code.size();
  row.compile_ms = kernel.binary->compile_ms;
  row.origin = kernel.origin;
  if (kernel.path.empty()) row.error = "compiled, but not stored: no cache directory could be written";
  return row;
}

PrecompiledKernel make(const KernelRequest& request, KernelCache& cache) {
  PrecompiledKernel row = request.row;
  if (!row.error.empty()) return row;
  try {
    return build_first(
        {row.problem, row.options}, request.choice, [&] { return request.alternatives; },
        [&](const ConfigChoice& choice) { return make_with(choice, row, cache); });
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    row.error = error.what();
  }
  return row;
}

}  // namespace

KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, const PrecompileOptions& options,
                               ConfigChooser& chooser) {
  std::vector<Violation> found = violations_of(problems, options.plans, archs);
  if (!found.empty()) throw InvalidRequest(std::move(found));
  KernelRequests requests;
  std::set<std::string> seen;
  for (const std::string& arch : archs) {
    for (const AttentionProblem& problem : problems) {
      for (const PlanOptions& plan : options.plans)
        add_requests({problem.normalized(), plan}, *find_arch(arch), options, chooser, requests, seen);
    }
  }
  return requests;
}

std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer) {
  std::vector<PrecompiledKernel> rows(requests.size());
  std::mutex mutex;
  std::size_t done = 0;
  const int threads = jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency());
  Interruption interruption;
  for_each_index(requests.size(), threads, [&](std::size_t i) {
    interruption.check();
    rows[i] = make(requests[i], cache);
    const std::lock_guard lock(mutex);
    ++done;
    if (observer != nullptr) observer->finished(rows[i], done, requests.size());
  });
  return rows;
}

void export_records(const std::vector<TuningRecord>& records, TuningStore& store) {
  std::set<std::string> known;
  for (const TuningRecord& record : store.records()) known.insert(to_json_line(record));
  for (const TuningRecord& record : records) {
    if (known.insert(to_json_line(record)).second) store.add(record);
  }
}

}  // namespace fa2
