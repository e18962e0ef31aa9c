// Precompilation: no GPU, no driver.
#include <api/precompile.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <operation/validate.h>
#include <runtime/parallel.h>

#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fa2 {
namespace {

/// A kernel that is asked for, and what serves if it is refused.
struct Wanted {
  PlannedProblem problem;
  ConfigChoice choice;
  std::vector<ConfigChoice> alternatives;
};

std::vector<Wanted> forward_of(const PlannedProblem& problem, const Target& target, PrecompileScope scope,
                               ConfigChooser& chooser) {
  const std::vector<PossibleChoice> choices =
      scope == PrecompileScope::any_size
          ? chooser.every_choice(problem, target)
          : std::vector<PossibleChoice>{{problem, chooser.choose(problem, target)}};
  std::vector<Wanted> wanted;
  for (const auto& [of, choice] : choices)
    wanted.push_back({of, choice, ConfigChooser::alternatives(choice, of, target)});
  return wanted;
}

/// A kernel a pass: no size chooses among them.
std::vector<Wanted> backward_of(const PlannedProblem& problem, const Target& target,
                                const ConfigChooser& chooser) {
  std::vector<Wanted> wanted;
  for (const KernelPass pass : kBackwardPasses) {
    std::vector<ConfigChoice> choices = chooser.choose_backward(problem, pass, target);
    if (choices.empty()) continue;
    if (pass == KernelPass::dq_dk_dv)
      for (const ConfigChoice& choice : choices)
        wanted.push_back({problem, conversion_of(choice.config), {}});
    wanted.push_back({problem, choices.front(), {std::next(choices.begin()), choices.end()}});
  }
  return wanted;
}

void add_request(Wanted wanted, const Target& target, KernelRequests& requests, std::set<std::string>& seen) {
  const ConfigChoice& choice = wanted.choice;
  if (choice.record) requests.records.push_back(*choice.record);
  KernelRequest request;
  request.row.problem = wanted.problem;
  request.row.options = wanted.problem;
  request.row.arch = target.arch.name;
  request.row.config = choice.config;
  request.row.key = render({traits_of(wanted.problem), choice.config, target.arch}).key;
  if (!seen.insert(request.row.key).second) return;
  request.choice = std::move(wanted.choice);
  request.alternatives = std::move(wanted.alternatives);
  requests.kernels.push_back(std::move(request));
}

void add_requests(const PlannedProblem& problem, const Arch& arch, const PrecompileOptions& options,
                  ConfigChooser& chooser, KernelRequests& requests, std::set<std::string>& seen) {
  const Target target{arch, "", 0};
  try {
    for (Wanted& wanted : forward_of(problem, target, options.scope, chooser))
      add_request(std::move(wanted), target, requests, seen);
    if (!options.backward) return;
    for (Wanted& wanted : backward_of(problem, target, chooser))
      add_request(std::move(wanted), target, requests, seen);
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
  for_each_index(requests.size(), threads, [&](std::size_t i) {
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
