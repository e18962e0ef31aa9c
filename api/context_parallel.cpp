// Context::context_parallel_plan(): ranks agree on one request, then each makes its kernels.
#include <api/boundary.h>
#include <api/context.h>
#include <api/parallel_memory.h>
#include <api/problem_statements.h>
#include <fa2/context_parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>
#include <parallel/agreement.h>
#include <parallel/gather_engine.h>
#include <parallel/group_count.h>
#include <parallel/scheme_words.h>
#include <planning/backward.h>

#include <algorithm>
#include <utility>

namespace fa2 {

struct ContextParallelPlan::Impl {
  PlannedProblem shard;
  AttentionProblem problem;
  std::optional<Gradients> gradients;
  int device = 0;
  std::shared_ptr<const ScratchPool> scratch;
  ContextParallelExplanation explanation;
  std::optional<GatherEngine> engine;

  ~Impl() {
    const ScopedContext current(device);
    engine.reset();
  }
};

namespace {

constexpr Gradients kNoGradients{.dq = false, .dk = false, .dv = false};

struct ParallelRequest {
  const AttentionProblem& given;
  const ShardLayout& layout;
  const ContextParallelOptions& options;
  const std::vector<std::int64_t>& cu_seqlens;
  const Communicator& communicator;
  const Device& gpu;
  AttentionProblem problem = given.normalized();
  Gradients gradients = options.gradients ? kept_by(given, *options.gradients) : kNoGradients;
};

/// Adds the fields that no scheme computes.
void check_problem(RequestCheck& found, const ParallelRequest& request) {
  const AttentionProblem& p = request.problem;
  if (p.kv_type != KvType::same)
    found.add("kv_type", word_of(p.kv_type), "must be same: keys travel in the dtype of Q");
  const auto expect_none = [&](bool given, const char* field, const char* rule) {
    if (given) found.add(field, "true", rule);
  };
  expect_none(p.values_in_keys, "values_in_keys", "must be false: latents are not sharded");
  expect_none(p.query_pieces, "query_pieces", "must be false: the layout says where queries stand");
  expect_none(p.max_logits, "max_logits", "must be false: ranks do not exchange logits");
  if (p.batch < 1) found.add("batch", p.batch, "must be at least 1");
  const auto documents = static_cast<std::int64_t>(request.cu_seqlens.size()) - 1;
  if (p.varlen && p.batch != documents)
    found.add("batch", p.batch, fmt::format("must be the number of documents in cu_seqlens, {}", documents));
}

void check_options(RequestCheck& found, const ParallelRequest& request) {
  const ContextParallelOptions& options = request.options;
  const Gradients& gradients = request.gradients;
  const int ranks = request.communicator.size();
  if (request.layout.size() != ranks)
    found.add("layout.ranks", request.layout.size(),
              fmt::format("must be the {} ranks of the communicator", ranks));
  Violations enums;
  check_enum(enums, "scheme", options.scheme);
  found.add(std::move(enums));
  if (gradients.dk != gradients.dv)
    found.add("gradients.dk", gradients.dk ? "true" : "false",
              "must equal gradients.dv: both go home together");
  if (options.groups < 0) found.add("groups", options.groups, "must be at least 0");
  const std::string why = why_one_group(request.problem, gradients);
  if (options.groups > 1 && !why.empty()) found.add("groups", options.groups, "must be 0 or 1: " + why);
}

RequestCheck broken_rules(const ParallelRequest& request) {
  RequestCheck found;
  found.add(violations_of(PlannedProblem(request.given, request.options.plan)));
  if (!found.empty()) return found;
  check_problem(found, request);
  check_options(found, request);
  if (found.empty() && request.options.gradients)
    found.add(violations_of_backward(request.problem, request.gradients));
  return found;
}

/// A rank's share of the work, and its exchanges.
struct Sharding {
  GatherWork work;
  IntervalPlan intervals;
  std::int64_t pairs = 0;
  std::string reason;
};

int groups_of(const ParallelRequest& request, const IntervalPlan& intervals, std::string& reason) {
  const std::string why = why_one_group(request.problem, request.gradients);
  if (!why.empty()) {
    reason += "; one group, because " + why;
    return 1;
  }
  if (request.options.groups > 0) return request.options.groups;
  std::int64_t most = 0;
  for (const RowsOfSlices& held : intervals.held) most = std::max(most, held.count());
  return group_count(request.problem, most, request.gpu.sm_count);
}

/// Adds to `found` why there is none.
Sharding sharding_of(const ParallelRequest& request, RequestCheck& found) try {
  const AttentionProblem exchanged = exchanged_problem(request.problem);
  const StreamMask mask(exchanged, request.cu_seqlens);
  const int rank = request.communicator.rank();
  Sharding made;
  made.intervals = plan_intervals(request.layout, mask);
  const bool is_local = made.intervals.transfers.empty();
  const ContextParallelScheme asked = request.options.scheme;
  if (asked == ContextParallelScheme::local && !is_local)
    found.add("scheme", "local", "must not be local: queries see keys of other ranks");
  GatherWork& work = made.work;
  work.is_local = is_local && asked != ContextParallelScheme::gather_heads;
  made.reason = work.is_local ? "no query sees a key of another rank"
                : asked == ContextParallelScheme::automatic
                    ? "each head is computed at once, and nothing is merged"
                    : "asked for";
  work.work = rank_work(request.problem, request.cu_seqlens, made.intervals, mask, rank, found);
  if (!found.empty()) return made;
  const int groups = work.is_local ? 1 : groups_of(request, made.intervals, made.reason);
  const std::int64_t batch = request.problem.varlen ? 1 : request.problem.batch;
  work.gather = plan_gather(made.intervals, rank, head_groups(batch, request.problem.heads_kv, groups));
  work.shard = shard_problem(request.problem, made.intervals.held[rank].count());
  work.gradients = request.gradients;
  work.alignment = request.options.plan.row_alignment;
  const StreamMask visible(request.problem, request.cu_seqlens);
  for (const Slice& slice : request.layout.ranks[rank]) made.pairs += visible.pairs(slice);
  return made;
} catch (const InvalidRequest& error) {
  found.add(error.violations());
  return {};
}

std::vector<Statement> statements_of(const ParallelRequest& request, const Sharding& made) {
  const ContextParallelOptions& o = request.options;
  const Gradients& g = request.gradients;
  std::vector<Statement> statements = statements_of(PlannedProblem(request.problem, o.plan));
  statements.insert(statements.end(),
                    {{"layout", to_string(request.layout)},
                     {"cu_seqlens", fmt::format("{}", fmt::join(request.cu_seqlens, " "))},
                     {"scheme", std::string(to_string(o.scheme))},
                     {"groups", fmt::format("{}", made.work.gather.groups.size())},
                     {"gradients", fmt::format("{} {} {} {} {} {}", g.dq, g.dk, g.dv, g.d_sinks, g.d_captures,
                                               word_of(g.determinism))}});
  return statements;
}

ContextParallelExplanation explanation_of(const ParallelRequest& request, const Sharding& made,
                                          const GatherEngine& engine) {
  const AttentionProblem& p = request.problem;
  const int rank = request.communicator.rank(), ranks = request.communicator.size();
  ContextParallelExplanation e;
  e.scheme = made.work.is_local ? ContextParallelScheme::local : ContextParallelScheme::gather_heads;
  e.reason = made.reason;
  e.rank = rank, e.ranks = ranks;
  e.groups = static_cast<int>(engine.of().gather.groups.size());
  e.tokens = engine.of().shard.seqlen_q;
  e.needed_keys = engine.of().gather.rows;
  e.pairs = made.pairs;
  e.sent_bytes.assign(ranks, 0), e.received_bytes.assign(ranks, 0);
  const std::int64_t batch = p.varlen ? 1 : p.batch;
  for (const KeyTransfer& part : made.intervals.transfers) {
    const std::int64_t bytes = part.keys.size() * batch * p.heads_kv * (p.head_dim + p.head_dim_v) * 2;
    if (part.from == rank) e.sent_bytes[part.to] += bytes;
    if (part.to == rank) e.received_bytes[part.from] += bytes;
  }
  e.workspace_bytes = engine.workspace_bytes();
  if (engine.forward() != nullptr) e.forward = engine.forward()->explain();
  if (engine.backward() != nullptr) e.backward = engine.backward()->explain();
  return e;
}

ContextParallelPlan plan_made_for(const Context::Impl& context, const AttentionProblem& problem,
                                  const Communicator& communicator) {
  if (auto plan = context.parallel_plans.find(problem.normalized(), communicator)) return *plan;
  throw Unavailable(
      fmt::format("there is no plan for \"{}\" on this communicator: make one on every rank, by "
                  "Context::context_parallel_plan(), and keep it",
                  to_string(problem)));
}

/// Adds what is wrong beyond the rules of those of attention().
void check_call(Violations& found, const AttentionProblem& problem, const AttentionArgs& args) {
  if (args.block_map != nullptr)
    found.push_back({"block_map", "given", "must be null: plans of shards make their own maps"});
  if (problem.varlen && args.alibi_slopes_per_batch)
    found.push_back({"alibi_slopes_per_batch", "true", "must be false with documents"});
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
  require_same(communicator, statements_of(request, made), found.take());
  auto impl = std::make_shared<ContextParallelPlan::Impl>();
  make_together(communicator, [&] {
    impl->problem = request.problem;
    impl->shard = PlannedProblem(made.work.shard, options.plan);
    impl->gradients = options.gradients;
    impl->device = gpu.ordinal;
    PlanMaker make;
    make.forward = [&](const AttentionProblem& p) { return plan(p, gpu.ordinal, options.plan); };
    if (options.gradients)
      make.backward = [&](const AttentionProblem& p) {
        return backward_plan(p, gpu.ordinal, request.gradients, options.plan);
      };
    make.append = [&](const RowKernel& kernel) {
      return impl_->load_kernel_of(Operation::append, kernel, gpu, nullptr).kernel;
    };
    make.sum = [&](const RowKernel& kernel) { return impl_->load_kernel(kernel.spec(gpu.arch), gpu).kernel; };
    impl->engine.emplace(made.work, communicator, make);
    impl->scratch = impl_->scratch_pool(gpu);
    impl->explanation = explanation_of(request, made, *impl->engine);
  });
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
  const ScopedContext current(impl.device);
  const Operands operands = operands_of(impl.shard, args, impl.engine->workspace_bytes());
  Violations found = violations_of(impl.shard, args, operands);
  check_call(found, impl.problem, args);
  require_usable(std::move(found), operands, impl.device);
  RunMemory memory(*impl.scratch, impl.engine->workspace_bytes(), args.workspace, stream);
  memory.use([&](std::byte* workspace) { impl.engine->run(args, workspace, stream); });
} catch (...) {
  rethrow_as_error();
}

void ContextParallelPlan::run_backward(const BackwardArgs& args, Stream stream) const try {
  Impl& impl = *impl_;
  if (!impl.gradients)
    throw InvalidRequest({{"gradients", "absent", "must be given to context_parallel_plan()"}});
  const ScopedContext current(impl.device);
  const BackwardOperands operands = backward_operands_of(impl.shard, args, impl.engine->workspace_bytes());
  Violations found = violations_of(impl.shard, impl.engine->of().gradients, args, operands);
  check_call(found, impl.problem, args.forward);
  require_usable(std::move(found), operands, impl.device);
  RunMemory memory(*impl.scratch, impl.engine->workspace_bytes(), args.workspace, stream);
  memory.use([&](std::byte* workspace) { impl.engine->run_backward(args, workspace, stream); });
} catch (...) {
  rethrow_as_error();
}

std::size_t ContextParallelPlan::workspace_bytes() const {
  return impl_->engine->workspace_bytes();
}

const AttentionProblem& ContextParallelPlan::problem() const {
  return impl_->problem;
}

const ContextParallelExplanation& ContextParallelPlan::explain() const {
  return impl_->explanation;
}

}  // namespace fa2
