// A Context on a GPU: threads, graph capture, rejected arguments.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/log.h>
#include <runtime/parallel.h>

#include <cmath>
#include <latch>
#include <string>
#include <vector>

#include "../support/captured_graph.h"
#include "../support/captured_log.h"
#include "../support/gpu_attention.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem small_problem() {
  return grouped_problem(DType::f16, MaskKind::none, 64, 97, 130);
}

/// Returns problems with five different kernels.
std::vector<AttentionProblem> problems() {
  using enum MaskKind;
  return {
      small_problem(),
      {.dtype = DType::bf16,
       .head_dim = 128,
       .mask = causal_bottom_right,
       .heads_q = 4,
       .heads_kv = 1,
       .seqlen_q = 130,
       .seqlen_k = 200},
      {.head_dim = 40,
       .head_dim_v = 72,
       .mask = causal_top_left,
       .batch = 2,
       .heads_q = 2,
       .seqlen_q = 65,
       .seqlen_k = 300},
      {.dtype = DType::bf16, .head_dim = 256, .heads_q = 2, .seqlen_q = 70, .seqlen_k = 70},
      {.dtype = DType::bf16, .head_dim = 64, .heads_q = 2, .heads_kv = 1, .seqlen_q = 50, .seqlen_k = 257}};
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Runs `calls` attention calls, which go through all problems in turn, on a new stream. Returns what went
/// wrong.
std::vector<std::string> call_in_turn(Context& context, std::size_t first, std::size_t calls) {
  const ScopedContext current(0);
  const OwnedStream stream;
  std::vector<GuardedCall> mine;
  for (const AttentionProblem& problem : problems()) mine.emplace_back(problem);
  std::vector<std::string> failures;
  for (std::size_t i = 0; i < calls; ++i) {
    GuardedCall& call = mine[(first + i) % mine.size()];
    call.upload();
    context.attention(call.problem, call.args, stream.get());
    stream.synchronize();
    const reference::Verdict verdict = call.check();
    if (!verdict.ok) failures.push_back(verdict.message);
  }
  return failures;
}

KernelOrigin origin_of(Context& context, const AttentionProblem& problem) {
  return context.plan(problem).explain().kernels.at(0).origin;
}

}  // namespace

TEST_CASE("eight threads share a cold context: results are right, and each kernel is compiled once") {
  if (cannot_run()) return;
  constexpr std::size_t kThreads = 8, kCalls = 20;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  std::vector<std::string> failures[kThreads];
  std::string logged;
  {
    Context context(untuned(cache.path()));
    const CapturedLog log_lines;
    log().set_level(spdlog::level::debug);  // at this level every compilation is logged
    std::latch together(kThreads);
    for_each_index(kThreads, kThreads, [&](std::size_t i) {
      together.arrive_and_wait();
      failures[i] = call_in_turn(context, i, kCalls);
    });
    logged = log_lines.text();
    for (const AttentionProblem& problem : problems())
      CHECK(origin_of(context, problem) == KernelOrigin::compiled);
  }
  for (const auto& of_thread : failures) {
    for (const std::string& failure : of_thread) FAIL_CHECK(failure);
  }
  CHECK_MESSAGE(occurrences(logged, "compiled ") == problems().size(), logged);

  Context second(untuned(cache.path()));
  for (const AttentionProblem& problem : problems()) {
    CHECK(origin_of(second, problem) == KernelOrigin::disk_cache);
    run_and_expect_contract(second, GuardedCall(problem));
  }
}

TEST_CASE("a planned problem is captured and replayed; one without a plan is rejected without harm") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  Context context(untuned(cache.path()));
  GuardedCall call(small_problem()), other(small_problem());
  const GuardedCall unplanned(problems()[1]);
  context.plan(call.problem);
  const OwnedStream stream;
  CapturedGraph graph(stream.get());

  graph.begin();
  context.attention(call.problem, call.args, stream.get());
  CHECK_THROWS_AS(context.attention(unplanned.problem, unplanned.args, stream.get()), Unavailable);
  context.attention(other.problem, other.args, stream.get());
  graph.end();
  CHECK(call.is_untouched());

  for (const unsigned seed : {100u, 200u}) {
    call.randomize(seed);
    other.randomize(seed + 50);
    graph.launch();
    stream.synchronize();
    expect_contract(call);
    expect_contract(other);
  }
  CHECK(unplanned.is_untouched());
}

TEST_CASE("wrong arguments launch nothing, with and without a plan") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  const GuardedCall call(small_problem());
  std::vector<std::uint16_t> host(static_cast<std::size_t>(4 * 130 * 64));
  std::vector<AttentionArgs> wrong(9, call.args);
  wrong[0].q = nullptr;
  wrong[1].softmax_scale = NAN;
  wrong[2].out = const_cast<void*>(call.args.q);
  wrong[3].out_strides.row = 8;
  wrong[4].k = static_cast<const char*>(call.args.k) + 1;
  wrong[5].lse = static_cast<float*>(call.args.out);
  wrong[6].v = host.data();
  wrong[7].out = host.data();
  wrong[8].empty_row_lse = static_cast<EmptyRowLse>(7);
  const auto refuse_all = [&](Context& context) {
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      INFO("wrong argument ", i);
      CHECK_THROWS_AS(context.attention(call.problem, wrong[i]), InvalidRequest);
      CHECK(call.is_untouched());
    }
  };
  Context context(untuned(cache.path()));
  refuse_all(context);
  context.plan(call.problem);
  refuse_all(context);

  AttentionArgs freed = call.args;
  freed.k = DeviceBuffer(std::size_t{64} << 20).data();
  REQUIRE((pointer_facts(freed.k).kind == PointerKind::unregistered));
  CHECK_THROWS_AS(context.attention(call.problem, freed), InvalidRequest);
  CHECK(call.is_untouched());
  run_and_expect_contract(context, call);
}
