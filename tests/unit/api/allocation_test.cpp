// After its first run, a call allocates no memory, with any forward kernel. Kernels do nothing here: on a GPU
// launching is the driver's business, and interpreting makes no such promise.
#include <api/context.h>
#include <api/plan.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <runtime/device.h>
#include <tests/support/allocations.h>
#include <tests/support/backward_request.h>
#include <tests/support/fake_kernels.h>
#include <tests/support/mma_configs.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// forward_sm80, and forward_sm90 with every schedule and with packed heads.
const std::vector<std::string> kConfigs = {
    "kernel=forward_sm80",
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=0",
    "kernel=forward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,q_buffers=1,schedule=1",
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2",
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3"};

AttentionProblem grouped(std::int32_t head_dim, MaskKind mask) {
  AttentionProblem p;
  p.mask = mask;
  p.head_dim = head_dim;
  p.batch = 2;
  p.heads_q = 8;
  p.heads_kv = 2;
  p.seqlen_q = 100;
  p.seqlen_k = 300;
  return p.normalized();
}

/// Head dims that fill whole swizzle groups, and others.
std::vector<AttentionProblem> problems() {
  std::vector<AttentionProblem> all;
  for (const std::int32_t head_dim : {64, 72, 128}) {
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left})
      all.push_back(grouped(head_dim, mask));
  }
  all.push_back(grouped(64, MaskKind::none));
  all.back().seqlen_k = 0;
  for (const std::int64_t total : {0, 150}) {  // batched, packed
    all.push_back(grouped(64, MaskKind::causal_bottom_right));
    all.back().varlen = true;
    all.back().total_q = all.back().total_k = total;
  }
  return all;
}

/// Returns pointers far apart, which no test dereferences.
AttentionArgs args_of(const AttentionProblem& problem) {
  const auto at = [](std::uintptr_t gigabytes) { return reinterpret_cast<void*>(gigabytes << 30); };
  AttentionArgs args = bshd_args(problem, at(1), at(2), at(3), at(4), static_cast<float*>(at(5)));
  if (!problem.varlen) return args;
  if (problem.total_q > 0) args.cu_seqlens_q = static_cast<std::int32_t*>(at(6));
  if (problem.total_k > 0) args.cu_seqlens_k = static_cast<std::int32_t*>(at(7));
  args.seqused_q = args.seqused_k = static_cast<std::int32_t*>(at(8));
  return args;
}

/// Adds a workspace if the plan needs scratch: without one it would ask the driver, or on the interpreter the
/// host, for memory.
AttentionArgs args_of(const AttentionProblem& problem, const AttentionPlan& plan) {
  AttentionArgs args = args_of(problem);
  if (plan.impl().steps.at(0).scratch.bytes > 0)
    args.workspace = reinterpret_cast<void*>(std::uintptr_t{20} << 34);
  return args;
}

/// Returns a plan for the interpreter, whose context must be current.
AttentionPlan plan_of(const AttentionProblem& problem, const KernelConfig& config,
                      std::shared_ptr<const Kernel> kernel) {
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem, {}};
  plan->device = kInterpreterDevice;
  Step step = forward_step(problem, config, std::move(kernel), 4);
  if (step.counters.bytes > 0) step.context_counters = std::make_shared<LaunchCounters>();
  plan->add(std::move(step));
  return AttentionPlan(std::move(plan));
}

/// Calls test(problem, plan, kernel) for every problem and every config that fits it.
template <class Test>
void for_each_plan(const Test& test) {
  const ScopedContext current(kInterpreterDevice);
  int plans = 0;
  for (const std::string& text : kConfigs) {
    const KernelConfig config = parse_config(text);
    for (const AttentionProblem& problem : problems()) {
      INFO(text, ": ", to_string(problem));
      REQUIRE(why_rejected({problem, {}}, config, interpreter_arch()).value_or("") == "");
      const auto kernel = std::make_shared<const IdleKernel>();
      test(problem, plan_of(problem, config, kernel), *kernel);
      ++plans;
    }
  }
  CHECK(plans == static_cast<int>(kConfigs.size() * problems().size()));
}

/// Every choice of gradients: one kernel for all, dK and dV in one kernel, and in two.
const std::vector<std::vector<KernelPass>> kPasses = {
    {KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert},
    {KernelPass::delta, KernelPass::dq, KernelPass::dk_dv},
    {KernelPass::delta, KernelPass::dq, KernelPass::dk, KernelPass::dv},
    {KernelPass::delta, KernelPass::dq},
    {KernelPass::dv}};

bool computes(const std::vector<KernelPass>& passes, KernelPass pass) {
  return std::ranges::find(passes, pass) != passes.end();
}

Gradients gradients_of(const std::vector<KernelPass>& passes) {
  const bool all = computes(passes, KernelPass::dq_dk_dv), both = all || computes(passes, KernelPass::dk_dv);
  return {.dq = all || computes(passes, KernelPass::dq),
          .dk = both || computes(passes, KernelPass::dk),
          .dv = both || computes(passes, KernelPass::dv)};
}

/// Returns pointers that no test dereferences. There is a workspace: without one the plan would ask the
/// driver, or on the interpreter the host, for memory.
BackwardArgs backward_args_of(const AttentionProblem& problem, const Gradients& gradients) {
  BackwardArgs args = backward_arguments(problem);
  if (!gradients.dq) args.dq = nullptr;
  if (!gradients.dk) args.dk = nullptr;
  if (!gradients.dv) args.dv = nullptr;
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{20} << 34);
  return args;
}

KernelConfig config_of(KernelPass pass) {
  if (pass == KernelPass::dq_dk_dv) return default_config(KernelId::backward_sm90);
  if (pass == KernelPass::dq_convert) return default_config(KernelId::backward_convert_sm90);
  return config_on_every_gpu(pass);
}

/// Returns a plan for the interpreter, whose context must be current.
BackwardPlan backward_plan_of(const AttentionProblem& problem, const std::vector<KernelPass>& passes,
                              const std::shared_ptr<const Kernel>& kernel) {
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem, {}};
  plan->gradients = gradients_of(passes);
  plan->device = kInterpreterDevice;
  plan->scratch = std::make_shared<const ScratchPool>();
  const BackwardScratch scratch = computes(passes, KernelPass::dq_dk_dv)
                                      ? scratch_for(problem, config_of(KernelPass::dq_dk_dv), 0)
                                      : scratch_for(problem);
  for (const KernelPass pass : passes) plan->add(backward_step(problem, config_of(pass), kernel, scratch));
  return BackwardPlan(std::move(plan));
}

/// Calls test(problem, gradients, plan, kernel) for every batched problem and every choice of gradients.
template <class Test>
void for_each_backward(const Test& test) {
  const ScopedContext current(kInterpreterDevice);
  for (const std::vector<KernelPass>& passes : kPasses) {
    for (const AttentionProblem& problem : problems()) {
      if (problem.varlen || problem.seqlen_k == 0) continue;
      INFO(to_string(problem), ", ", passes.size(), " kernels");
      const auto kernel = std::make_shared<const IdleKernel>();
      test(problem, gradients_of(passes), backward_plan_of(problem, passes, kernel), *kernel);
      CHECK(kernel->launches == static_cast<int>(passes.size()));
    }
  }
}

}  // namespace

TEST_CASE("allocations are counted: every form of new, and this thread's only") {
  if (cannot_count_allocations()) return;
  CHECK(allocations_of([] {}) == 0);
  CHECK(allocations_of([] { ::operator delete(::operator new(1)); }) == 1);
  CHECK(allocations_of([] { ::operator delete[](::operator new[](1)); }) == 1);
  CHECK(allocations_of([] { ::operator delete(::operator new(1, std::nothrow)); }) == 1);
  constexpr std::align_val_t kAlignment{256};
  CHECK(allocations_of([] { ::operator delete(::operator new(1, kAlignment), kAlignment); }) == 1);
}

TEST_CASE("run() allocates nothing") {
  for_each_plan([](const AttentionProblem& problem, const AttentionPlan& plan, const IdleKernel& kernel) {
    const AttentionArgs args = args_of(problem, plan);
    CHECK(allocations_of([&] { plan.run(args); }) == 0);
    CHECK(allocations_of([&] { plan.run(args); }) == 0);
    CHECK(kernel.launches == 2);
  });
}

TEST_CASE("a memoised attention() allocates nothing") {
  const TemporaryDirectory cache;
  for_each_plan([&](const AttentionProblem& problem, const AttentionPlan& plan, const IdleKernel& kernel) {
    ContextOptions options;
    options.cache_dir = cache.path();
    Context context(options);
    context.impl().plans.get({{problem, {}}, kInterpreterDevice}, [&] { return plan; });
    const AttentionArgs args = args_of(problem, plan);
    CHECK(allocations_of([&] { context.attention(problem, args); }) == 0);
    CHECK(kernel.launches == 1);
  });
}

TEST_CASE("a backward's run() with a workspace allocates nothing") {
  for_each_backward([](const AttentionProblem& problem, const Gradients& gradients, const BackwardPlan& plan,
                       const IdleKernel&) {
    const BackwardArgs args = backward_args_of(problem, gradients);
    CHECK(allocations_of([&] { plan.run(args); }) == 0);
  });
}

TEST_CASE("a memoised attention_backward() with a workspace allocates nothing") {
  const TemporaryDirectory cache;
  for_each_backward([&](const AttentionProblem& problem, const Gradients& gradients, const BackwardPlan& plan,
                        const IdleKernel&) {
    ContextOptions options;
    options.cache_dir = cache.path();
    Context context(options);
    context.impl().backward_plans.get({{{problem, {}}, kInterpreterDevice}, gradients}, [&] { return plan; });
    const BackwardArgs args = backward_args_of(problem, gradients);
    CHECK(allocations_of([&] { context.attention_backward(problem, args); }) == 0);
  });
}
