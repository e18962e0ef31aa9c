// The backward of sequences with their own lengths, packed and batched.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <tests/support/backward_cases.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr std::array<std::int32_t, 2> kHeadDims[] = {{64, 64}, {72, 40}, {192, 128}, {64, 32}};
constexpr std::array<std::int64_t, 2> kHeads[] = {{1, 1}, {4, 1}, {4, 2}};
constexpr MakeLayout kLayouts[] = {guarded_bshd, guarded_bhsd};

struct Window {
  std::optional<std::int64_t> left = {}, right = {}, chunk = {};
};
constexpr Window kWindows[] = {{}, {.left = 20}, {.left = 33, .right = 7}, {.right = 0}, {.chunk = 50}};

constexpr Wanted kWanted[] = {{},
                              {.dq = true, .dk = false, .dv = false},
                              {.dq = false, .dk = true, .dv = false},
                              {.dq = false, .dk = false, .dv = true},
                              {}};

/// Returns a problem with the traits of `c`, without sizes.
AttentionProblem problem_of(const Combination& c) {
  AttentionProblem p{.head_dim = kHeadDims[c[0]][0], .head_dim_v = kHeadDims[c[0]][1], .mask = kMasks[c[1]]};
  p.window_left = kWindows[c[2]].left, p.window_right = kWindows[c[2]].right;
  p.attention_chunk = kWindows[c[2]].chunk;
  p.softcap = c[3] == 1, p.alibi = c[4] == 1, p.sinks = c[5] == 1;
  p.dtype = c[6] == 1 ? DType::bf16 : DType::f16;
  return p;
}

AttentionProblem plain(MaskKind mask) {
  return {.head_dim = 64, .mask = mask, .heads_q = 2, .heads_kv = 1};
}

bool are_zero(const reference::Tensor& gradient, const reference::SequenceRows& rows) {
  return std::ranges::all_of(reference::rows_of(gradient, rows).values, [](float x) { return x == 0; });
}

struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};
};

}  // namespace

TEST_CASE("backward varlen: the gradients' contract holds for every pair of variants") {
  if (cannot_run()) return;
  Gpu gpu;
  const std::vector<Combination> all =
      pairwise({std::size(kHeadDims), std::size(kMasks), std::size(kWindows), 2, 2, 2, 2});
  const std::size_t step = device_under_test() == kInterpreterDevice ? 2 : 1;
  std::size_t i = 0;
  for (std::size_t c = 0; c < all.size(); c += step) {
    AttentionProblem problem = problem_of(all[c]);
    for (int n = 0; n < 2; ++n, ++i) {
      const auto& [heads_q, heads_kv] = kHeads[(i + i / 9) % std::size(kHeads)];
      problem.heads_q = heads_q, problem.heads_kv = heads_kv;
      const std::size_t mix = i % length_mixes().size();
      GuardedBackward call = backward_of(problem, length_mixes()[mix], kPackings[i % 4], kLayouts[i / 4 % 2]);
      vary_numbers(call.forward, i);
      if (problem.softcap) call.forward.args.softcap = 1.5f;  // a cap with a slope that matters
      if (i % 3 == 0) call.d_lse.clear();
      call.wanted = kWanted[i % std::size(kWanted)];
      call.upload();
      INFO("mix ", mix, ", packing ", i % 4, ", wanted ", i % std::size(kWanted));
      run_and_expect_gradients(gpu.context, call);
    }
  }
}

TEST_CASE("backward varlen: tiles of other sizes, with one stage and with three") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const char* config :
       {"kernel=backward_dq_sm80,stages=1,tile_n=32", "kernel=backward_dq_sm80,tile_m=128,warps=4,stages=3",
        "kernel=backward_dk_dv_sm80,stages=3,tile_n=32",
        "kernel=backward_dk_dv_sm80,tile_m=128,warps=8,stages=1,tile_n=16"}) {
    INFO(config);
    Context context(pinning(parse_config(config)));
    for (const std::size_t mix : {std::size_t{5}, std::size_t{7}}) {
      GuardedBackward call = backward_of(plain(kMasks[i % 3]), length_mixes()[mix],
                                         i % 2 == 0 ? Packing::packed : Packing::roomy);
      run_and_expect_gradients(context, call);
    }
    ++i;
  }
}

TEST_CASE("backward varlen: rows aligned only to one element") {
  if (cannot_run()) return;
  Gpu gpu;
  AttentionProblem problem = plain(MaskKind::causal_bottom_right);
  problem.head_dim = 24;
  for (const Packing packing : kPackings) {
    const GuardedBackward call = backward_of(problem, length_mixes()[5], packing, misaligned);
    run_and_expect_gradients(gpu.context, call);
  }
}

TEST_CASE("backward varlen: each sequence has the bits of a batched backward of it alone") {
  if (cannot_run()) return;
  Gpu gpu;
  std::size_t i = 0;
  for (const MaskKind mask : kMasks) {
    AttentionProblem problem = plain(mask);
    problem.head_dim = 128;  // Hopper's fused kernel serves both
    problem.alibi = i == 0;
    if (i == 1) problem.window_left = 30;
    GuardedBackward call = backward_of(problem, length_mixes()[i == 0 ? 5 : 6 + i], kPackings[i]);
    if (i == 0) {
      call.forward.problem.batch_invariant = true;  // the batched problem must make the same promise
    } else {
      call.determinism = Determinism::bitwise;
    }
    run_and_expect_gradients(gpu.context, call);
    for (std::size_t b = 0; b < call.forward.sequences().size(); ++b) {
      INFO(to_string(problem), ", sequence ", b);
      const reference::Sequence sequence = call.forward.sequences()[b];
      GuardedBackward one = alone(call, b);
      one.determinism = Determinism::bitwise;
      gpu.context.attention_backward(one.forward.problem, one.args());
      const auto bits = [&](const reference::Tensor& t) { return bits_of(t, problem.dtype); };
      CHECK(bits(one.dq()) == bits(reference::rows_of(call.dq(), sequence.q)));
      CHECK(bits(one.dk()) == bits(reference::rows_of(call.dk(), sequence.k)));
      CHECK(bits(one.dv()) == bits(reference::rows_of(call.dv(), sequence.k)));
    }
    ++i;
  }
}

TEST_CASE("backward varlen: without keys dQ is 0; without queries dK and dV are 0") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const Packing packing : kPackings) {
    const GuardedBackward call =
        backward_of(plain(MaskKind::none), Lengths({0, 70, 5, 0}, {66, 0, 9, 0}), packing);
    run_and_expect_gradients(gpu.context, call);
    const std::vector<reference::Sequence> sequences = call.forward.sequences();
    CHECK(are_zero(call.dk(), sequences[0].k));
    CHECK(are_zero(call.dv(), sequences[0].k));
    CHECK(are_zero(call.dq(), sequences[1].q));
    CHECK_FALSE(are_zero(call.dq(), sequences[2].q));
    CHECK_FALSE(are_zero(call.dk(), sequences[2].k));
  }
}

TEST_CASE("backward varlen: a sequence of NaN leaves the gradients of others finite and right") {
  if (cannot_run()) return;
  Gpu gpu;
  expect_nan_of_one_sequence(
      [&](const GuardedBackward& call) { run_and_expect_gradients(gpu.context, call); }, 64);
}

TEST_CASE("backward varlen: one plan serves any lengths, whatever its workspace holds") {
  if (cannot_run()) return;
  Gpu gpu;
  GuardedBackward call =
      backward_of(plain(MaskKind::causal_bottom_right), Lengths({50, 65, 1, 20}), Packing::roomy);
  const BackwardPlan plan = gpu.context.backward_plan(call.forward.problem, device_under_test(), {}, {});
  expect_any_lengths(plan, call, Packing::roomy);
}

TEST_CASE("backward varlen: a sequence longer than seqlen is cut") {
  if (cannot_run()) return;
  if (device_under_test() == kInterpreterDevice) {
    MESSAGE("skipped: the interpreter refuses such tables before the launch");
    return;
  }
  Gpu gpu;
  const Lengths lengths({70, 90, 30});
  AttentionProblem problem = with_lengths(plain(MaskKind::causal_bottom_right), lengths, Packing::packed);
  problem.seqlen_q = 65, problem.seqlen_k = 80;
  GuardedBackward call(problem);
  set_lengths(call.forward, lengths, Packing::packed);
  poison_unseen(call);
  call.upload();
  run_and_expect_gradients(gpu.context, call);
}
