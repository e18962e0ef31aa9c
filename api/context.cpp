// Context: a memo of plans, in front of choosing, compiling and loading kernels.
#include <api/boundary.h>
#include <api/context.h>
#include <api/plan.h>
#include <api/plan_log.h>
#include <api/precompile.h>
#include <autotune/cached_choices.h>
#include <core/text.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <planning/key_map.h>
#include <runtime/file.h>
#include <runtime/log.h>
#include <runtime/pack.h>

#include <chrono>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// Returns the kernel's key in Impl::loaded.
std::string name_of(const KernelSpec& spec, const Device& gpu) {
  return fmt::format("{} {} on {}", to_string(spec.traits), to_string(spec.config), gpu.ordinal);
}

/// Returns the stores before the user's own, in search order. A pack that cannot be used costs one warning.
Stores read_only_stores(const Settings& settings) {
  Stores stores;
  for (auto& pack : embedded_packs()) stores.push_back(std::move(pack));
  for (const auto& path : settings.read_only_caches) stores.push_back(open_store(path));
  return stores;
}

std::shared_ptr<DiskCache> user_cache(const Settings& settings) {
  if (settings.cache_dir)
    return std::make_shared<DiskCache>(*settings.cache_dir, DiskCache::Access::read_write);
  warn_once(
      "no cache directory",
      "none of FA2_CACHE_DIR, XDG_CACHE_HOME and HOME is set: every process compiles its kernels again");
  return nullptr;
}

TuningStore tuning_records(const Settings& settings, const Stores& stores) {
  return TuningStore(settings.cache_dir ? *settings.cache_dir / kTuningFile : "", texts_of(stores),
                     shipped_records(), settings.records_until);
}

/// Compiles with NVRTC for GPUs, and with the host's compiler for the interpreter.
class ArchCompiler final : public Compiler {
 public:
  std::string judge(const Arch& arch) override { return of(arch).judge(arch); }
  KernelBinary compile(const KernelSource& source) override { return of(source.arch).compile(source); }

 private:
  Compiler& of(const Arch& arch) { return arch.interpreted ? *host_ : *nvrtc_; }

  std::unique_ptr<Compiler> nvrtc_ = make_nvrtc_compiler();
  std::unique_ptr<Compiler> host_ = interpreter::make_host_compiler();
};

KernelReport report_of(const KernelSource& source, const CachedKernel& kernel) {
  const KernelResources& resources = kernel.binary->resources;
  KernelReport report;
  report.key = source.key;
  report.key_parts = source.key_parts;
  report.origin = kernel.origin;
  report.path = kernel.path;
  report.compiler = kernel.binary->compiler;
  report.compile_ms = kernel.binary->compile_ms;
  report.load_ms = kernel.wait_ms;
  report.binary_bytes = kernel.binary->code.size();
  report.resources = resources;
  report.blocks_per_sm = resident_blocks(source.arch, resources.threads, resources.registers,
                                         resources.static_shared_bytes + resources.dynamic_shared_bytes);
  return report;
}

std::shared_ptr<const LoadedKernel> load(const KernelSpec& spec, const Device& gpu, KernelCache& kernels,
                                         const std::function<void()>& before_compiling) {
  const ScopedContext context(
      gpu.ordinal);  // before the clock: the first takes 100 ms, which are not the kernel's
  const auto start = std::chrono::steady_clock::now();
  const KernelSource source = render(spec);
  const CachedKernel cached = kernels.get(source, before_compiling);
  LoadedKernel loaded{nullptr, report_of(source, cached), cached.notes};
  loaded.kernel = gpu.arch.interpreted ? interpreter::load_interpreted_kernel(
                                             *cached.binary, interpreter::options_from_environment())
                                       : load_cuda_kernel(*cached.binary, gpu.ordinal);
  loaded.report.load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return std::make_shared<const LoadedKernel>(std::move(loaded));
}

}  // namespace

std::string_view reason_for(const PlanOptions& options) {
  if (options.row_alignment == RowAlignment::element)
    return "rows of an argument are not 16-byte aligned: the slower RowAlignment::element kernel runs";
  if (options.row_alignment == RowAlignment::bytes16_any_order)
    return "a stride of an argument is not positive, which TMA cannot load: the kernel of "
           "RowAlignment::bytes16_any_order runs";
  return {};
}

[[noreturn]] void throw_capturing(const AttentionProblem& problem) {
  throw Unavailable(
      fmt::format("there is no plan yet for \"{}\", and the stream is capturing: make the plan first, by "
                  "Context::plan() or one attention() call before the capture begins",
                  to_string(problem)));
}

const Arch& require_arch(const std::string& name, std::vector<Violation> found) {
  const Arch* arch = find_arch(name);
  if (arch == nullptr) found.push_back({"arch", in_quotes(name), "must be one of " + known_arch_names()});
  if (!found.empty()) throw InvalidRequest(std::move(found));
  return *arch;
}

Context::Impl::Impl(const ContextOptions& options)
    : settings(settings_of(options)),
      compiler(std::make_shared<ArchCompiler>()),
      requests(settings.request_log),
      stores(read_only_stores(settings)),
      kernels(compiler, stores, user_cache(settings), settings.jit),
      records(tuning_records(settings, stores)),
      chooser(settings, records) {
  for (const Violation& doubt : settings.doubts) warn_once(to_string(doubt), to_string(doubt));
}

AttentionPlan Context::Impl::plan(const PlannedProblem& problem, int ordinal, const std::string& notes,
                                  bool keeps_lse) {
  return plans.get({problem, ordinal}, [&] {
    const Device& gpu = device(ordinal);
    requests.add({Operation::forward, problem, {}, target_of(gpu)});
    const auto ahead_of_compiling = [&] { compile_ahead(gpu, problem, keeps_lse); };
    return AttentionPlan(
        completed(forward_plan(planner_on(gpu, problem, ahead_of_compiling), notes, gpu), gpu, "plan"));
  });
}

Plan Context::Impl::forward_plan(Planner planner, const std::string& notes, const Device& gpu) {
  const ScopedContext current(gpu.ordinal);
  Plan plan = plan_forward(planner, notes);
  const auto counts = make_constant_map(plan);
  if (!counts || !counts->are_mostly_partial()) return plan;
  planner.mask_is_partial = true;
  Plan of_partial = plan_forward(planner, notes);
  if (of_partial.steps.back().config == plan.steps.back().config) return plan;
  make_constant_map(of_partial);
  return of_partial;
}

BackwardPlan Context::Impl::backward_plan(const PlannedProblem& problem, int ordinal,
                                          const Gradients& gradients, const std::string& notes) {
  return backward_plans.get({{problem, ordinal}, gradients}, [&] {
    const Device& gpu = device(ordinal);
    requests.add({Operation::backward, problem, gradients, target_of(gpu)});
    Plan plan = plan_backward(planner_on(gpu, problem), gradients, notes);
    const ScopedContext current(gpu.ordinal);
    make_constant_map(plan);
    return BackwardPlan(completed(std::move(plan), gpu, "backward plan"));
  });
}

Planner Context::Impl::planner_for(const PlannedProblem& problem, const Target& target) {
  Planner planner{.problem = problem, .target = target, .chooser = chooser, .get = {}, .alternatives = {}};
  planner.get = [this](const KernelSpec& spec) -> LoadedKernel {
    const KernelSource source = render(spec);
    const CachedKernel kernel = kernels.get(source);
    return {nullptr, report_of(source, kernel), kernel.notes};
  };
  planner.alternatives = [this, target](const PlannedProblem& p, const ConfigChoice& choice) {
    return alternatives(choice, p, target);
  };
  return planner;
}

Planner Context::Impl::planner_on(const Device& gpu, const PlannedProblem& problem,
                                  const std::function<void()>& before_compiling) {
  Planner planner = planner_for(problem, target_of(gpu));
  planner.get = [this, &gpu, before_compiling](const KernelSpec& spec) {
    return load_kernel(spec, gpu, before_compiling);
  };
  planner.search = [this, &gpu](const PlannedProblem& p, KernelPass pass) -> Search {
    if (settings.tune == TuneMode::now) return search_on(gpu, p, pass, TuneScope::likely);
    note(gpu, p, pass);
    return {};
  };
  return planner;
}

std::shared_ptr<const Plan> Context::Impl::completed(Plan plan, const Device& gpu, std::string_view what) {
  const ScopedContext current(gpu.ordinal);
  plan.device = gpu.ordinal;
  plan.checks_tables = plan.problem.varlen && (settings.check || gpu.arch.interpreted);
  for (Step& step : plan.steps) {
    const auto words = static_cast<std::uint32_t>(step.counters.bytes / sizeof(std::uint32_t));
    if (words > 0)
      step.context_counters = counters.get(
          {gpu.ordinal, words}, [&] { return std::make_shared<LaunchCounters>(counter_sizes(words)); });
  }
  if (plan.workspace.scratch_bytes > 0) plan.scratch = scratch_pool(gpu);
  log_plan(what, plan.explanation);
  return std::make_shared<const Plan>(std::move(plan));
}

std::vector<ConfigChoice> Context::Impl::alternatives(const ConfigChoice& choice,
                                                      const PlannedProblem& problem,
                                                      const Target& target) const {
  std::vector<ConfigChoice> others = ConfigChooser::alternatives(choice, problem, target);
  if (settings.jit != JitMode::off || choice.origin == ConfigOrigin::pinned) return others;
  return cached_choices(choice, std::move(others), kernels.specs(target.arch.name), problem, target.arch);
}

LoadedKernel Context::Impl::load_kernel(const KernelSpec& spec, const Device& gpu,
                                        const std::function<void()>& before_compiling) {
  bool is_new = false;
  LoadedKernel kernel = *loaded.get(name_of(spec, gpu), [&] {
    is_new = true;
    return load(spec, gpu, kernels, before_compiling);
  });
  if (!is_new) {
    kernel.report.origin = KernelOrigin::memory;
    kernel.report.load_ms = 0;
  }
  return kernel;
}

LoadedKernel Context::Impl::load_kernel_of(Operation operation, const RowKernel& kernel, const Device& gpu,
                                           Stream stream) {
  const KernelSpec spec = kernel.spec(gpu.arch);
  if (!gpu.arch.interpreted && is_capturing(stream) && !loaded.find(name_of(spec, gpu))) {
    throw Unavailable(fmt::format(
        "the kernel of {0}() is not loaded yet, and the stream is capturing: call {0}() once before the "
        "capture begins",
        word_of(operation)));
  }
  if (settings.request_log) requests.add({operation, kernel.problem, {}, target_of(gpu)});
  return load_kernel(spec, gpu);
}

Context::Context(const ContextOptions& options) try : impl_(std::make_unique<Impl>(options)) {
} catch (...) {
  rethrow_as_error();
}
Context::~Context() = default;

Context& Context::default_context() {
  static Context& context = *new Context;  // never destroyed: destructors of other statics may use it
  return context;
}

AttentionPlan Context::Impl::plan_of_call(const PlannedProblem& p, const AttentionArgs& args, int ordinal,
                                          Stream stream) {
  if (ordinal != kInterpreterDevice && is_capturing(stream) && !plans.find({p, ordinal})) throw_capturing(p);
  return plan(p, ordinal, std::string(reason_for(p)), args.lse != nullptr);
}

void Context::attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream) try {
  require_valid_problem_of(problem, args);
  Operands operands = operands_of(problem, args);
  const PlannedProblem p(problem.normalized(), options_kept_by(problem, operands));
  const int ordinal = has_output(p) ? current_device() : 0;
  if (const auto plan = impl_->plans.find({p, ordinal})) {
    operands.set_workspace_bytes(plan->workspace_bytes());
    return run(plan->impl(), args, operands, stream);
  }

  require_valid(p, args);
  if (has_output(p)) impl_->plan_of_call(p, args, ordinal, stream).run(args, stream);
} catch (...) {
  rethrow_as_error();
}

void Context::map_blocks(const AttentionProblem& problem, const AttentionArgs& args, const BlockMap& map,
                         Stream stream) try {
  require_valid_problem_of(problem, args);
  const PlannedProblem p(problem.normalized(), options_kept_by(problem, operands_of(problem, args)));
  if (!has_output(p)) return;
  AttentionArgs without = args;  // the map's own check says more than that of a call
  without.block_map = nullptr, without.block_map_version = 0;
  require_valid(p, without);
  impl_->plan_of_call(p, args, current_device(), stream).map_blocks(args, map, stream);
} catch (...) {
  rethrow_as_error();
}

void map_blocks(const AttentionProblem& problem, const AttentionArgs& args, const BlockMap& map,
                Stream stream) {
  Context::default_context().map_blocks(problem, args, map, stream);
}

AttentionPlan Context::plan(const AttentionProblem& problem, int device, const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  require_valid(planned);
  return impl_->plan(planned.normalized(), device == -1 ? current_device() : device, "");
} catch (...) {
  rethrow_as_error();
}

Explanation Context::explain(const AttentionProblem& problem, const std::string& arch_name,
                             const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  const Target target{require_arch(arch_name, violations_of(planned)), "", 0};
  const Planner planner = impl_->planner_for(planned.normalized(), target);
  return explanation_of(planner, forward_kernels(planner), "");
} catch (...) {
  rethrow_as_error();
}

std::vector<PrecompiledKernel> Context::precompile(const std::vector<AttentionProblem>& problems,
                                                   const std::vector<std::string>& archs,
                                                   const PrecompileOptions& options) try {
  const KernelRequests requests = kernel_requests(problems, archs, options, impl_->chooser);
  if (options.out.empty())
    return make_kernels(requests.kernels, impl_->kernels, options.jobs, options.observer);
  if (is_pack_name(options.out)) return make_pack(requests, impl_->compiler, options);
  require_writable(std::filesystem::path(options.out) / "probe");
  // Without the read-only caches, so that this directory gets every kernel.
  KernelCache cache(impl_->compiler, {},
                    std::make_shared<DiskCache>(options.out, DiskCache::Access::read_write), JitMode::on);
  auto rows = make_kernels(requests.kernels, cache, options.jobs, options.observer);
  TuningStore records(std::filesystem::path(options.out) / kTuningFile);
  export_records(requests.records, records);
  make_readable_by_all(options.out);  // root may make it for a server's user, for example
  return rows;
} catch (...) {
  rethrow_as_error();
}

void attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream) {
  Context::default_context().attention(problem, args, stream);
}

std::vector<PrecompiledKernel> precompile(const std::vector<AttentionProblem>& problems,
                                          const std::vector<std::string>& archs,
                                          const PrecompileOptions& options) {
  return Context::default_context().precompile(problems, archs, options);
}

}  // namespace fa2
