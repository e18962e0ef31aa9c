// Precompilation needs neither a GPU nor a driver.
#include <api/precompile.h>
#include <api/settings.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <operation/rules/validate.h>
#include <planning/dropout_mask.h>
#include <planning/key_map.h>
#include <planning/row_kernels.h>
#include <planning/widened_keys.h>
#include <runtime/file.h>
#include <runtime/interrupt.h>
#include <runtime/pack_builder.h>
#include <runtime/parallel.h>

#include <exception>
#include <iterator>
#include <memory>
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
  std::vector<PossibleChoice> choices = {{problem, chooser.choose(problem, target, {}, pass)}};
  if (auto of_partial = ConfigChooser::for_partial_mask(choices[0].choice, problem, target))
    choices.push_back({problem, *std::move(of_partial)});
  return choices;
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

/// Adds the kernels that make maps for a kernel that reads one, and for its alternatives.
void add_maps(const PlannedProblem& problem, const ConfigChoice& reader, const Target& target,
              KernelRequests& requests, std::set<std::string>& seen) {
  std::vector<ConfigChoice> readers = ConfigChooser::alternatives(reader, problem, target);
  readers.push_back(reader);
  for (const ConfigChoice& choice : readers)
    if (choice.config.key_map != 0)
      add_kernel(problem, key_map_choice(choice.config), target, requests, seen);
}

/// Adds the kernels of a pass.
void add_pass(const PlanRequest& request, KernelPass pass, PrecompileScope scope, ConfigChooser& chooser,
              KernelRequests& requests, std::set<std::string>& seen) {
  for (auto& [of, choice] : choices_of(request.problem, request.target, pass, scope, chooser)) {
    if (sums_dq(pass)) add_conversions(of, choice, request.target, requests, seen);
    if (has_mask_text(of)) add_maps(of, choice, request.target, requests, seen);
    add_request(of, std::move(choice), request.target, requests, seen);
  }
}

/// Adds the kernels of a forward, among them those of plans that widen keys and values.
void add_forward(PlanRequest request, PrecompileScope scope, ConfigChooser& chooser, KernelRequests& requests,
                 std::set<std::string>& seen) {
  const PlannedProblem& problem = request.problem;
  const bool any_size = scope == PrecompileScope::any_size;
  const bool widens = any_size ? may_widen(problem, request.target.arch) && !chooser.pins(KernelPass::forward)
                               : widens_keys(problem, request.target, chooser);
  if (any_size || !widens) add_pass(request, KernelPass::forward, scope, chooser, requests, seen);
  if (!widens) return;
  add_row_kernel(widen_kernel(problem), widen_choice().reason.c_str(), request.target, requests, seen);
  request.problem = widened_problem(problem);
  add_pass(request, KernelPass::forward, scope, chooser, requests, seen);
}

void add_kernels(const PlanRequest& request, PrecompileScope scope, ConfigChooser& chooser,
                 KernelRequests& requests, std::set<std::string>& seen) {
  const auto& [operation, problem, gradients, target] = request;
  switch (operation) {
    case Operation::forward:
      return add_forward(request, scope, chooser, requests, seen);
    case Operation::backward:
      for (const KernelPass pass : kBackwardPasses) add_pass(request, pass, scope, chooser, requests, seen);
      if (has_gradient_parts(problem))
        add_row_kernel(sum_kernel(problem), "the only kernel that adds gradients in parts", target, requests,
                       seen);
      return;
    case Operation::append:
      return add_row_kernel(append_kernel(problem), "the only kernel of append()", target, requests, seen);
    case Operation::merge:
      if (problem.float32_out)
        add_row_kernel(put_kernel(), "the only kernel that exchanges parts of several ranks", target,
                       requests, seen);
      return add_row_kernel(merge_kernel(problem), "the only kernel of merge()", target, requests, seen);
    case Operation::dropout_mask:
      return add_row_kernel(dropout_mask_kernel(), "the only kernel of dropout_mask()", target, requests,
                            seen);
  }
}

/// Adds the kernels of a request, or why there is none.
void add_or_note(const PlanRequest& request, PrecompileScope scope, ConfigChooser& chooser,
                 KernelRequests& requests, std::set<std::string>& seen) {
  try {
    add_kernels(request, scope, chooser, requests, seen);
  } catch (const Error& error) {
    KernelRequest failed;
    failed.row.problem = request.problem;
    failed.row.options = request.problem;
    failed.row.arch = request.target.arch.name;
    failed.row.error = error.what();
    requests.kernels.push_back(std::move(failed));
  }
}

/// Returns every operation that the options ask for.
std::vector<Operation> operations_of(const PrecompileOptions& options) {
  std::vector<Operation> operations = {Operation::forward};
  if (options.backward) operations.push_back(Operation::backward);
  if (options.append) operations.push_back(Operation::append);
  if (options.merge) operations.push_back(Operation::merge);
  return operations;
}

/// Leaves every `shards`-th kernel, from `shard` on.
void keep_shard(std::vector<KernelRequest>& kernels, int shard, int shards) {
  if (shards < 1 || shard < 0 || shard >= shards)
    throw InvalidRequest({{"shard", fmt::format("{} of {}", shard, shards), "must be 0 to shards - 1"}});
  std::size_t i = 0;
  std::erase_if(kernels, [&](const KernelRequest&) {
    return static_cast<int>(i++ % static_cast<std::size_t>(shards)) != shard;
  });
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

}  // namespace

std::vector<PlanRequest> requests_for(const std::vector<AttentionProblem>& problems,
                                      const std::vector<std::string>& archs,
                                      const PrecompileOptions& options) {
  std::vector<Violation> found = violations_of(problems, options, archs);
  if (!found.empty()) throw InvalidRequest(std::move(found));
  std::vector<PlanRequest> requests;
  for (const std::string& arch : archs) {
    for (const AttentionProblem& problem : problems) {
      for (const PlanOptions& plan : options.plans) {
        for (const Operation operation : operations_of(options))
          requests.push_back({operation, {problem.normalized(), plan}, {}, {*find_arch(arch), "", 0}});
      }
    }
  }
  if (options.requests.empty()) return requests;
  for (PlanRequest& request : read_requests(options.requests)) {
    if (archs.empty()) requests.push_back(request);
    for (const std::string& arch : archs) {
      request.target = {*find_arch(arch), "", 0};
      requests.push_back(request);
    }
  }
  return requests;
}

KernelRequests kernel_requests(const std::vector<PlanRequest>& wanted, const PrecompileOptions& options,
                               ConfigChooser& chooser) {
  KernelRequests requests;
  std::set<std::string> seen;
  for (const PlanRequest& request : wanted) add_or_note(request, options.scope, chooser, requests, seen);
  keep_shard(requests.kernels, options.shard, options.shards);
  return requests;
}

KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, const PrecompileOptions& options,
                               ConfigChooser& chooser) {
  return kernel_requests(requests_for(problems, archs, options), options, chooser);
}

PrecompiledKernel make_kernel(const KernelRequest& request, KernelCache& cache) {
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

std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer) {
  std::vector<PrecompiledKernel> rows(requests.size());
  std::mutex mutex;
  std::size_t done = 0;
  const int threads = jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency());
  Interruption interruption;
  for_each_index(requests.size(), threads, [&](std::size_t i) {
    interruption.check();
    rows[i] = make_kernel(requests[i], cache);
    const std::lock_guard lock(mutex);
    ++done;
    if (observer != nullptr) observer->finished(rows[i], done, requests.size());
  });
  return rows;
}

std::vector<PrecompiledKernel> make_pack(const KernelRequests& requests, std::shared_ptr<Compiler> compiler,
                                         const PrecompileOptions& options) {
  const auto pack = std::make_shared<PackBuilder>(options.out);
  require_writable(pack->path());
  KernelCache cache(std::move(compiler), {}, pack, JitMode::on);
  std::vector<PrecompiledKernel> rows = make_kernels(requests.kernels, cache, options.jobs, options.observer);
  pack->set_text(kTuningFile, canonical_lines(requests.records));
  pack->write();
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
