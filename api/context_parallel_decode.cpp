// Context::context_parallel_decode_plan().
#include <api/boundary.h>
#include <api/context.h>
#include <api/problem_statements.h>
#include <api/rank_runs.h>
#include <fa2/context_parallel.h>
#include <fmt/format.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>
#include <parallel/agreement.h>
#include <parallel/decode_engine.h>
#include <planning/row_kernels.h>

#include <iterator>
#include <utility>

namespace fa2 {

struct ContextParallelDecodePlan::Impl {
  PlannedProblem problem;  ///< of the rank's attention
  ContextParallelDecodeExplanation explanation;
  RankRuns<DecodeEngine> runs;

  explicit Impl(Communicator& communicator) : runs(communicator) {}
};

namespace {

Violations broken_rules(const AttentionProblem& given, const PlanOptions& options, int ranks) {
  Violations found = violations_of(PlannedProblem(given, options));
  if (!found.empty()) return found;
  const AttentionProblem p = given.normalized();
  if (p.heads_q % ranks != 0)
    found.push_back({"heads_q", fmt::format("{}", p.heads_q),
                     fmt::format("must be a multiple of the {} ranks of the communicator", ranks)});
  if (p.max_logits) found.push_back({"max_logits", "true", "must be false: ranks do not exchange logits"});
  if (p.dropout)
    found.push_back({"dropout", "true", "must be false: keys have no numbers in their sequence"});
  if (p.head_dim > kMostCopiedColumns)
    found.push_back({"head_dim", fmt::format("{}", p.head_dim), "must be at most 512"});
  return found;
}

/// Returns the problem without what may differ between ranks.
AttentionProblem common_part(AttentionProblem p) {
  p.seqlen_k = p.total_k = 0;
  p.page_count = p.page_size > 0;
  return p;
}

/// Lets messages travel through peer memory, if ranks have it. On GPUs a kernel puts them there, because copy engines take longer to begin
/// than a communicator. Returns how messages travel, and why.
std::string connect(Context::Impl& context, RankRuns<DecodeEngine>& runs, Communicator& communicator,
                    const Device& gpu) {
  if (communicator.size() > kMostPutRanks)
    return fmt::format("the communicator, because it has more than {} ranks", kMostPutRanks);
  std::string why_not;
  const auto window = context.parallel_windows.get(communicator, runs.engine->workspace_bytes(), why_not);
  if (!window) return "the communicator: " + why_not;
  std::shared_ptr<const Kernel> put;
  make_together(communicator, [&] {
    if (!interpreting()) put = context.load_kernel_of(Operation::merge, put_kernel(), gpu, nullptr).kernel;
  });
  runs.carrier.connect(window, {runs.engine->messages(window->data()), {}}, put);
  return fmt::format("{}, into memory that ranks map", put ? "a kernel" : "copies");
}

}  // namespace

ContextParallelDecodePlan Context::context_parallel_decode_plan(const AttentionProblem& problem,
                                                                Communicator& communicator,
                                                                const PlanOptions& options, int ordinal) try {
  const Device& gpu = device(ordinal == -1 ? current_device() : ordinal);
  const ScopedContext current(gpu.ordinal);
  Violations found = broken_rules(problem, options, communicator.size());
  const AttentionProblem whole = problem.normalized();
  require_same(communicator, statements_of(PlannedProblem(common_part(whole), options)), std::move(found));
  auto impl = std::make_shared<ContextParallelDecodePlan::Impl>(communicator);
  make_together(communicator, [&] {
    const AttentionProblem own = decode_problem(whole, communicator.rank());
    impl->problem = PlannedProblem(own, options);
    impl->runs.device = gpu.ordinal;
    const auto load = [&](const RowKernel& kernel) {
      return impl_->load_kernel_of(Operation::merge, kernel, gpu, nullptr).kernel;
    };
    impl->runs.engine = std::make_unique<DecodeEngine>(
        whole, impl->runs.carrier, plan(own, gpu.ordinal, options), load, options.row_alignment);
    impl->runs.scratch = impl_->scratch_pool(gpu);
  });
  const std::string transport = connect(*impl_, impl->runs, communicator, gpu);
  impl->explanation = {impl->runs.engine->plan().explain(), transport, impl->runs.peer_bytes(),
                       impl->runs.workspace_bytes()};
  return ContextParallelDecodePlan(std::move(impl));
} catch (...) {
  rethrow_as_error();
}

void ContextParallelDecodePlan::run(const AttentionArgs& args, Stream stream) const try {
  Impl& impl = *impl_;
  RankRuns<DecodeEngine>& runs = impl.runs;
  DecodeEngine& engine = *runs.engine;
  const ScopedContext current(runs.device);
  std::vector<Operand> used = engine.own_operands(args);
  Violations found = violations_of_operands(used);
  RunMemory memory = runs.memory(args.workspace, stream);
  const AttentionArgs local = engine.local_args(args, memory.data());
  const Operands operands = operands_of(impl.problem, local);
  std::ranges::move(violations_of(impl.problem, local, operands), std::back_inserter(found));
  used.insert(used.end(), operands.begin(), operands.end());
  require_usable(std::move(found), used, runs.device);
  if (const Plan& own = engine.plan().impl(); own.checks_tables && !own.steps.empty())
    require_sound_tables(own.problem, local, runs.device, stream);  // before other ranks wait for this one
  runs.carry(Pass::forward, std::move(memory), stream,
             [&](std::byte* workspace) { engine.run(args, workspace, stream); });
} catch (...) {
  rethrow_as_error();
}

std::size_t ContextParallelDecodePlan::workspace_bytes() const {
  return impl_->runs.workspace_bytes();
}

const ContextParallelDecodeExplanation& ContextParallelDecodePlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
