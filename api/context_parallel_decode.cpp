// Context::context_parallel_decode_plan().
#include <api/boundary.h>
#include <api/context.h>
#include <api/parallel_memory.h>
#include <api/problem_statements.h>
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
  int device = 0;
  std::shared_ptr<const ScratchPool> scratch;
  MessageCarrier carrier;
  std::optional<DecodeEngine> engine;

  explicit Impl(Communicator& communicator) : carrier(communicator) {}
  ~Impl() {
    const ScopedContext current(device);
    carrier.end_waits();
    engine.reset();
    carrier.disconnect();
  }

  /// Returns the bytes of workspace that callers may give.
  std::size_t workspace_bytes() const { return carrier.window() ? 0 : engine->workspace_bytes(); }
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
/// than a communicator.
void connect(Context::Impl& context, ContextParallelDecodePlan::Impl& plan, Communicator& communicator,
             const Device& gpu) {
  if (communicator.size() > kMostPutRanks) return;
  std::string why_not;
  const auto window = context.parallel_windows.get(communicator, plan.engine->workspace_bytes(), why_not);
  if (!window) return;
  std::shared_ptr<const Kernel> put;
  make_together(communicator, [&] {
    if (!interpreting()) put = context.load_kernel_of(Operation::merge, put_kernel(), gpu, nullptr).kernel;
  });
  plan.carrier.connect(window, {plan.engine->messages(window->data()), {}}, put);
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
    impl->device = gpu.ordinal;
    const auto load = [&](const RowKernel& kernel) {
      return impl_->load_kernel_of(Operation::merge, kernel, gpu, nullptr).kernel;
    };
    impl->engine.emplace(whole, impl->carrier, plan(own, gpu.ordinal, options), load, options.row_alignment);
    impl->scratch = impl_->scratch_pool(gpu);
  });
  connect(*impl_, *impl, communicator, gpu);
  return ContextParallelDecodePlan(std::move(impl));
} catch (...) {
  rethrow_as_error();
}

void ContextParallelDecodePlan::run(const AttentionArgs& args, Stream stream) const try {
  Impl& impl = *impl_;
  DecodeEngine& engine = *impl.engine;
  const ScopedContext current(impl.device);
  std::vector<Operand> used = engine.own_operands(args);
  Violations found = violations_of_operands(used);
  const auto& window = impl.carrier.window();
  RunMemory memory(*impl.scratch, impl.workspace_bytes(), window ? window->data() : args.workspace, stream);
  const AttentionArgs local = engine.local_args(args, memory.data());
  const Operands operands = operands_of(impl.problem, local);
  std::ranges::move(violations_of(impl.problem, local, operands), std::back_inserter(found));
  used.insert(used.end(), operands.begin(), operands.end());
  require_usable(std::move(found), used, impl.device);
  if (const Plan& own = engine.plan().impl(); own.checks_tables && !own.steps.empty())
    require_sound_tables(own.problem, local, impl.device, stream);  // before other ranks wait for this one
  memory.use([&](std::byte* workspace) {
    impl.carrier.carry(Pass::forward, stream, [&] { engine.run(args, workspace, stream); });
  });
} catch (...) {
  rethrow_as_error();
}

std::size_t ContextParallelDecodePlan::workspace_bytes() const {
  return impl_->workspace_bytes();
}

const Explanation& ContextParallelDecodePlan::explain() const {
  return impl_->engine->plan().explain();
}

}  // namespace fa2
