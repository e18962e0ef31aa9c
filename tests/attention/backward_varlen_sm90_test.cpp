// The backward of packed sequences on wgmma: sequences share no tile of a tensor, no LSE or delta, and no dQ
// accumulator.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <tests/support/backward_cases.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/config_spread.h"
#include "../support/gpu_backward.h"
#include "../support/pairwise.h"
#include "../support/refusals.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr KernelId kSumming = KernelId::backward_sm90;
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

AttentionProblem plain(MaskKind mask, std::int32_t head_dim = 72) {
  return {.head_dim = head_dim, .mask = mask, .heads_q = 2, .heads_kv = 1};
}

BackwardPlan plan_of(Context& context, const GuardedBackward& call) {
  return context.backward_plan(call.forward.problem, device_under_test(), {}, {});
}

/// CHECKs the gradients' contract for this file's kernel.
void expect_gradients_of_one_kernel(Context& context, const GuardedBackward& call) {
  run_and_expect_gradients(context, call);
  CHECK(plan_of(context, call).explain().kernels.at(1).config.kernel == kSumming);
}

/// CHECKs every config that a search may try, each pinned.
void check_space(const AttentionProblem& problem, const Lengths& lengths) {
  const Arch& arch = device(device_under_test()).arch;
  std::size_t i = 0, ran = 0;
  for (const KernelConfig& config :
       spread_over(config_space(traits_of({problem, {}}), arch, KernelPass::dq_dk_dv).valid)) {
    INFO(to_string(config));
    Context context(pinning(config));
    const GuardedBackward call = backward_of(problem, lengths, kPackings[i++ % 4]);
    try {
      run_and_expect_gradients(context, call);
    } catch (const KernelRefused& refused) {
      CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
      continue;
    }
    CHECK(plan_of(context, call).explain().kernels.at(1).config == config);
    ++ran;
  }
  CHECK(ran > 0);
}

struct Hopper {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};
};

}  // namespace

TEST_CASE("backward varlen on wgmma: every configuration computes bf16 d128 and f16 d72 with values of 40") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = plain(MaskKind::causal_bottom_right, 128);
  problem.dtype = DType::bf16;
  problem.varlen = true;
  check_space(problem, {{65, 7, 0, 131}, {97, 5, 9, 131}});
  problem = plain(MaskKind::none);
  problem.varlen = problem.softcap = problem.alibi = true;
  problem.head_dim_v = 40;
  check_space(problem, {{65, 7, 0, 131}, {97, 5, 9, 131}});
}

TEST_CASE("backward varlen on wgmma: every mask, window and chunk, whatever lies around the sequences") {
  if (cannot_run_sm_90a()) return;
  Hopper gpu;
  struct Window {
    std::optional<int> left = {}, right = {}, chunk = {};
  };
  const Window windows[] = {{}, {.left = 20}, {.left = 33, .right = 7}, {.right = 0}, {.chunk = 50}};
  std::size_t i = 0;
  constexpr int kDims[] = {64, 128, 192, 256};
  for (const Combination& c :
       pairwise({std::size(windows), std::size(kMasks), std::size(kDims), 2, std::size(kPackings), 2})) {
    AttentionProblem problem = plain(kMasks[c[1]], kDims[c[2]]);
    problem.window_left = windows[c[0]].left, problem.window_right = windows[c[0]].right;
    problem.attention_chunk = windows[c[0]].chunk;
    problem.dtype = c[3] == 0 ? DType::f16 : DType::bf16;
    const std::size_t mix = i++ % length_mixes().size();
    INFO(to_string(problem), ", mix ", mix, ", packing ", c[4]);
    const MakeLayout layout = c[5] == 0 ? guarded_bshd : guarded_bhsd;
    expect_gradients_of_one_kernel(gpu.context,
                                   backward_of(problem, length_mixes()[mix], kPackings[c[4]], layout));
  }
}

TEST_CASE("backward varlen on wgmma: dK and dV of a sequence have the same bits as alone, if bitwise") {
  if (cannot_run_sm_90a()) return;
  Hopper gpu;
  std::size_t i = 0;
  for (const MaskKind mask : kMasks) {
    AttentionProblem problem = plain(mask);
    if (i == 1) problem.window_left = 30;
    GuardedBackward call = backward_of(problem, length_mixes()[i == 0 ? 5 : 6 + i], kPackings[i]);
    call.determinism = Determinism::bitwise;  // else key tiles have as many parts as suit the batch
    run_and_expect_gradients(gpu.context, call);
    for (std::size_t b = 0; b < call.forward.sequences().size(); ++b) {
      INFO(to_string(problem), ", sequence ", b);
      const reference::Sequence sequence = call.forward.sequences()[b];
      GuardedBackward one = alone(call, b);
      if (sequence.q.count == 0 || sequence.k.count == 0) continue;
      one.determinism = Determinism::bitwise;
      run_and_expect_gradients(gpu.context, one);
      const auto bits = [&](const reference::Tensor& t) { return bits_of(t, problem.dtype); };
      CHECK(bits(one.dk()) == bits(reference::rows_of(call.dk(), sequence.k)));
      CHECK(bits(one.dv()) == bits(reference::rows_of(call.dv(), sequence.k)));
    }
    ++i;
  }
}

TEST_CASE("backward varlen on wgmma: a sequence of NaN leaves the gradients of others finite and right") {
  if (cannot_run_sm_90a()) return;
  Hopper gpu;
  expect_nan_of_one_sequence(
      [&](const GuardedBackward& call) { expect_gradients_of_one_kernel(gpu.context, call); }, 72);
}

TEST_CASE("backward varlen on wgmma: one plan serves any lengths, whatever its workspace holds") {
  if (cannot_run_sm_90a()) return;
  Hopper gpu;
  for (const Packing packing : {Packing::roomy, Packing::batched}) {
    AttentionProblem problem = plain(MaskKind::causal_bottom_right);
    problem.sinks = true;
    GuardedBackward call = backward_of(problem, Lengths({50, 65, 1, 20}), packing);
    call.wanted.d_sinks = true;
    const BackwardPlan plan =
        gpu.context.backward_plan(call.forward.problem, device_under_test(), {.d_sinks = true}, {});
    CHECK(plan.explain().kernels.at(1).config.kernel == kSumming);
    expect_any_lengths(plan, call, packing);
  }
}
