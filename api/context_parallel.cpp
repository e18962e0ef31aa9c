// Context::context_parallel_plan(): ranks agree on one request, then each makes its kernels.
#include <api/boundary.h>
#include <api/context.h>
#include <api/parallel_sharding.h>
#include <api/rank_runs.h>
#include <fa2/context_parallel.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>
#include <parallel/rank_work.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa2 {

struct ContextParallelPlan::Impl {
  PlannedProblem shard;  ///< of the rank's tensors
  AttentionProblem problem;
  std::optional<Gradients> gradients;  ///< as given
  Gradients kept;                      ///< those that the problem has
  ContextParallelExplanation explanation;
  RankRuns<ShardEngine> runs;

  explicit Impl(Communicator& communicator) : runs(communicator) {}
};

namespace {

/// Lets messages travel through peer memory, if ranks have it. Returns how they travel, and why.
std::string connect(ContextParallelPlan::Impl& plan, Communicator& communicator, ParallelWindows& windows) {
  ShardEngine& engine = *plan.runs.engine;
  if (plan.explanation.scheme == ContextParallelScheme::local) return {};
  std::string why_not;
  const auto window = windows.get(communicator, engine.workspace_bytes(), why_not);
  if (!window) return "the communicator: " + why_not;
  plan.runs.carrier.connect(window, {engine.messages(Pass::forward, window->data()),
                                     engine.messages(Pass::backward, window->data())});
  return "copy engines, into memory that ranks map";
}

ContextParallelExplanation explained(ContextParallelExplanation e, const ShardEngine& engine) {
  if (engine.forward() != nullptr) e.forward = engine.forward()->explain();
  if (engine.backward() != nullptr) e.backward = engine.backward()->explain();
  return e;
}

/// Adds what ranks must have chosen alike.
void add_choice(std::vector<Statement>& statements, const ContextParallelExplanation& e) {
  statements.push_back({"chosen scheme", std::string(to_string(e.scheme))});
  statements.push_back({"groups", fmt::format("{}", e.groups)});
  statements.push_back({"groups of a backward", fmt::format("{}", e.backward_groups)});
}

ContextParallelPlan plan_made_for(const Context::Impl& context, const AttentionProblem& problem,
                                  const Communicator& communicator) {
  if (auto plan = context.parallel_plans.find(problem.normalized(), communicator)) return *plan;
  throw Unavailable(
      fmt::format("there is no plan for \"{}\" on this communicator: make one on every rank, by "
                  "Context::context_parallel_plan(), and keep it",
                  to_string(problem)));
}

}  // namespace

ContextParallelPlan Context::context_parallel_plan(const AttentionProblem& problem, const ShardLayout& layout,
                                                   Communicator& communicator,
                                                   const ContextParallelOptions& options,
                                                   const std::vector<std::int64_t>& cu_seqlens,
                                                   int ordinal) try {
  const Device& gpu = device(ordinal == -1 ? current_device() : ordinal);
  const ScopedContext current(gpu.ordinal);
  const ParallelRequest request{problem, layout, options, cu_seqlens, communicator, gpu};
  RequestCheck found = broken_rules(request);
  Sharding made = found.empty() ? sharding_of(request, found) : Sharding{};
  std::vector<Statement> statements = statements_of(request);
  add_choice(statements, made.explanation);
  require_same(communicator, statements, found.take());
  auto impl = std::make_shared<ContextParallelPlan::Impl>(communicator);
  make_together(communicator, [&] {
    impl->problem = request.problem;
    impl->shard = PlannedProblem(shard_problem(request.problem, made.explanation.tokens), options.plan);
    impl->gradients = options.gradients;
    impl->kept = request.gradients;
    impl->runs.device = gpu.ordinal;
    PlanMaker make;
    make.forward = [&](const AttentionProblem& p) { return plan(p, gpu.ordinal, options.plan); };
    if (options.gradients)
      make.backward = [&](const AttentionProblem& p, const Gradients& gradients) {
        return backward_plan(p, gpu.ordinal, gradients, options.plan);
      };
    const auto load = [&](Operation operation) {
      return [&, operation](const RowKernel& kernel) {
        return impl_->load_kernel_of(operation, kernel, gpu, nullptr).kernel;
      };
    };
    make.append = load(Operation::append), make.merge = load(Operation::merge);
    make.sum = [&](const RowKernel& kernel) { return impl_->load_kernel(kernel.spec(gpu.arch), gpu).kernel; };
    impl->runs.engine = made.make_engine(impl->runs.carrier, make);
    impl->runs.scratch = impl_->scratch_pool(gpu);
    impl->explanation = explained(std::move(made.explanation), *impl->runs.engine);
  });
  impl->explanation.transport = connect(*impl, communicator, impl_->parallel_windows);
  impl->explanation.peer_bytes = impl->runs.peer_bytes();
  impl->explanation.workspace_bytes = impl->runs.workspace_bytes();
  const ContextParallelPlan made_plan(std::move(impl));
  impl_->parallel_plans.add(request.problem, communicator, made_plan);
  return made_plan;
} catch (...) {
  rethrow_as_error();
}

void Context::context_parallel_attention(const AttentionProblem& problem, const AttentionArgs& args,
                                         Communicator& communicator, Stream stream) try {
  plan_made_for(*impl_, problem, communicator).run(args, stream);
} catch (...) {
  rethrow_as_error();
}

void Context::context_parallel_attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                                  Communicator& communicator, Stream stream) try {
  plan_made_for(*impl_, problem, communicator).run_backward(args, stream);
} catch (...) {
  rethrow_as_error();
}

void context_parallel_attention(const AttentionProblem& problem, const AttentionArgs& args,
                                Communicator& communicator, Stream stream) {
  Context::default_context().context_parallel_attention(problem, args, communicator, stream);
}

void context_parallel_attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                         Communicator& communicator, Stream stream) {
  Context::default_context().context_parallel_attention_backward(problem, args, communicator, stream);
}

void ContextParallelPlan::run(const AttentionArgs& args, Stream stream) const try {
  Impl& impl = *impl_;
  RankRuns<ShardEngine>& runs = impl.runs;
  const ScopedContext current(runs.device);
  const Operands operands = operands_of(impl.shard, args, runs.workspace_bytes());
  Violations found = violations_of(impl.shard, args, operands);
  std::ranges::move(violations_of_run(impl.problem, impl.explanation.scheme, args),
                    std::back_inserter(found));
  require_usable(std::move(found), operands, runs.device);
  runs.carry(Pass::forward, runs.memory(args.workspace, stream), stream,
             [&](std::byte* workspace) { runs.engine->run(args, workspace, stream); });
} catch (...) {
  rethrow_as_error();
}

void ContextParallelPlan::run_backward(const BackwardArgs& args, Stream stream) const try {
  Impl& impl = *impl_;
  if (!impl.gradients)
    throw InvalidRequest({{"gradients", "absent", "must be given to context_parallel_plan()"}});
  RankRuns<ShardEngine>& runs = impl.runs;
  const ScopedContext current(runs.device);
  const BackwardOperands operands = backward_operands_of(impl.shard, args, runs.workspace_bytes());
  Violations found = violations_of(impl.shard, impl.kept, args, operands);
  std::ranges::move(violations_of_run(impl.problem, impl.explanation.scheme, args.forward),
                    std::back_inserter(found));
  require_usable(std::move(found), operands, runs.device);
  runs.carry(Pass::backward, runs.memory(args.workspace, stream), stream,
             [&](std::byte* workspace) { runs.engine->run_backward(args, workspace, stream); });
} catch (...) {
  rethrow_as_error();
}

std::size_t ContextParallelPlan::workspace_bytes() const {
  return impl_->runs.workspace_bytes();
}

const AttentionProblem& ContextParallelPlan::problem() const {
  return impl_->problem;
}

const ContextParallelExplanation& ContextParallelPlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
