// The gradient of sinks.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr Wanted kSinksAlone{.dq = false, .dk = false, .dv = false, .d_sinks = true};

/// Returns a problem with batch 2 and 4 query heads over 2 key/value heads.
AttentionProblem problem_of(MaskKind mask, int seqlen_q, int seqlen_k) {
  return {.head_dim = 64,
          .mask = mask,
          .sinks = true,
          .batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k};
}

/// Returns a call with dLSE that asks only for dSinks.
GuardedBackward call_of(const AttentionProblem& problem) {
  GuardedBackward call(problem);
  call.give_d_lse();
  call.wanted = kSinksAlone;
  call.upload();
  return call;
}

struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};

  std::vector<float> d_sinks(const GuardedBackward& call) {
    context.attention_backward(call.forward.problem, call.args());
    return call.d_sinks();
  }
};

}  // namespace

TEST_CASE("backward sinks: their gradient is right with every variant, alone and with other gradients") {
  if (cannot_run()) return;
  Gpu gpu;
  std::size_t i = 0;
  for (const Combination& c : pairwise({3, 2, 2, 2, 2, 2})) {
    AttentionProblem problem = problem_of(kMasks[c[0]], 77, 129);
    problem.dtype = c[1] == 1 ? DType::bf16 : DType::f16;
    problem.softcap = c[2] == 1, problem.alibi = c[3] == 1;
    if (c[4] == 1) problem.window_left = 20;
    GuardedBackward call(problem, backward_layouts_of(problem, c[5] == 1 ? guarded_bshd : misaligned));
    if (i % 2 == 0) call.give_d_lse();
    call.wanted = i % 3 == 0 ? Wanted{.d_sinks = true} : kSinksAlone;
    if (i % 4 == 1) call.forward.args.softmax_scale = -0.3f;
    call.upload();
    run_and_expect_gradients(gpu.context, call);
    ++i;
  }
}

TEST_CASE(
    "backward sinks: in a row without a key the sink has probability 1; a head without a sink has gradient "
    "0") {
  if (cannot_run()) return;
  Gpu gpu;
  GuardedBackward call = call_of(problem_of(MaskKind::causal_bottom_right, 200, 75));
  run_and_expect_gradients(gpu.context, call);
  call.forward.numbers["sinks"][1] = -kInfinity;
  for (const EmptyRowLse infinity : {EmptyRowLse::positive_infinity, EmptyRowLse::negative_infinity}) {
    call.forward.args.empty_row_lse = infinity;
    call.upload();
    run_and_expect_gradients(gpu.context, call);
    CHECK(call.d_sinks()[1] == 0);
    CHECK(call.d_sinks()[2] != 0);
  }
}

TEST_CASE("backward sinks: without keys the gradient comes from dLSE, without queries it is 0") {
  if (cannot_run()) return;
  Gpu gpu;
  const GuardedBackward keyless = call_of(problem_of(MaskKind::none, 70, 0));
  run_and_expect_gradients(gpu.context, keyless);
  CHECK(keyless.d_sinks()[0] != 0);
  CHECK(gpu.d_sinks(call_of(problem_of(MaskKind::none, 0, 70))) == std::vector<float>(4));
}

// 2500 queries are more than one iteration of 16 warps.
TEST_CASE("backward sinks: many queries, and the same bits in every run, whatever else is computed") {
  if (cannot_run()) return;
  Gpu gpu;
  AttentionProblem problem = problem_of(MaskKind::none, 2500, 5);
  problem.head_dim = 8;
  problem.heads_q = problem.heads_kv = 1;
  GuardedBackward call = call_of(problem);
  run_and_expect_gradients(gpu.context, call);
  const std::vector<float> once = call.d_sinks();
  call.wanted = {.dk = false, .dv = false, .d_sinks = true};
  call.upload();
  CHECK(gpu.d_sinks(call) == once);
  call.upload();
  CHECK(gpu.d_sinks(call) == once);
}

TEST_CASE("backward sinks: a pinned kernel with fewer warps") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config("kernel=backward_sinks,warps=2")));
  const GuardedBackward call = call_of(problem_of(MaskKind::causal_top_left, 300, 40));
  run_and_expect_gradients(context, call);
}

TEST_CASE("backward sinks: sums over the rows of sequences, and no others") {
  if (cannot_run()) return;
  Gpu gpu;
  std::size_t i = 0;
  for (const Lengths& lengths : length_mixes()) {
    const Packing packing = kPackings[i++ % 4];
    const AttentionProblem problem =
        with_lengths(problem_of(MaskKind::causal_bottom_right, 0, 0), lengths, packing);
    GuardedBackward call(problem);
    set_lengths(call.forward, lengths, packing);
    call.give_d_lse();
    poison_unseen(call);
    call.wanted = kSinksAlone;
    call.upload();
    INFO("mix ", i - 1);
    run_and_expect_gradients(gpu.context, call);
  }
}
