// Repeating a launch gives the same bits every time.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kLaunches = 1000;

/// Returns a ragged problem with more tiles than a GPU holds blocks. With a dynamic schedule, tiles go to
/// other blocks in every launch.
AttentionProblem ragged(int head_dim, MaskKind mask) {
  return AttentionProblem{.dtype = DType::bf16,
                          .head_dim = head_dim,
                          .mask = mask,
                          .batch = 3,
                          .heads_q = 32,
                          .heads_kv = 8,
                          .seqlen_q = 421,
                          .seqlen_k = 459}
      .normalized();
}

/// Returns one launch's O and LSE, end to end.
std::vector<std::byte> output_of(Context& context, const GuardedCall& call, DeviceBuffer& o,
                                 DeviceBuffer& lse) {
  o.fill(0xff);
  lse.fill(0xff);
  context.attention(call.problem, call.args);
  std::vector<std::byte> bytes(o.size() + lse.size());
  o.download(bytes.data(), o.size());
  lse.download(bytes.data() + o.size(), lse.size());
  return bytes;
}

void expect_the_same_bits(const AttentionProblem& problem, const std::string& config) {
  Context context(pinning(parse_config(config)));
  INFO(to_string(problem), " with ", config);
  GuardedCall call(problem);
  run_and_expect_contract(context, call);

  const auto rows = static_cast<std::size_t>(problem.batch * problem.heads_q * problem.seqlen_q);
  DeviceBuffer o(rows * static_cast<std::size_t>(problem.head_dim_v) * sizeof(std::uint16_t));
  DeviceBuffer lse(rows * sizeof(float));
  call.args.out = o.data();
  call.args.lse = static_cast<float*>(lse.data());
  const std::vector<std::byte> first = output_of(context, call, o, lse);
  int different = 0;
  for (int i = 1; i < kLaunches; ++i) different += output_of(context, call, o, lse) != first;
  CHECK(different == 0);
}

void expect_the_same_bits_with_each_mask(int head_dim, const std::string& config) {
  expect_the_same_bits(ragged(head_dim, MaskKind::none), config);
  expect_the_same_bits(ragged(head_dim, MaskKind::causal_bottom_right), config + ",skip_masked=1");
}

/// Contiguous memory for the gradients of a call.
struct GradientBuffers {
  explicit GradientBuffers(const AttentionProblem& p)
      : dq(bytes_of(p.heads_q * p.seqlen_q * p.head_dim, p)),
        dk(bytes_of(p.heads_kv * p.seqlen_k * p.head_dim, p)),
        dv(bytes_of(p.heads_kv * p.seqlen_k * p.head_dim_v, p)) {}

  static std::size_t bytes_of(std::int64_t elements, const AttentionProblem& p) {
    return static_cast<std::size_t>(p.batch * elements) * sizeof(std::uint16_t);
  }
  void give_to(BackwardArgs& args, const AttentionProblem& problem) {
    const AttentionArgs strides = bshd_args(problem, nullptr, nullptr, nullptr, nullptr, nullptr);
    args.dq = dq.data(), args.dq_strides = strides.q_strides;
    args.dk = dk.data(), args.dk_strides = strides.k_strides;
    args.dv = dv.data(), args.dv_strides = strides.v_strides;
  }
  /// Returns the gradients of one call, end to end.
  std::vector<std::byte> after(Context& context, const AttentionProblem& problem, const BackwardArgs& args) {
    for (DeviceBuffer* buffer : {&dq, &dk, &dv}) buffer->fill(0xff);
    context.attention_backward(problem, args);
    std::vector<std::byte> bytes(dq.size() + dk.size() + dv.size());
    dq.download(bytes.data(), dq.size());
    dk.download(bytes.data() + dq.size(), dk.size());
    dv.download(bytes.data() + dq.size() + dk.size(), dv.size());
    return bytes;
  }

  DeviceBuffer dq, dk, dv;
};

/// Returns how many of kLaunches differ from the first.
int differing_gradients(const AttentionProblem& problem, Determinism determinism) {
  Context context(untuned());
  GuardedBackward call(problem);
  call.determinism = determinism;
  run_and_expect_gradients(context, call);
  GradientBuffers gradients(problem);
  BackwardArgs args = call.args();
  gradients.give_to(args, problem);
  const std::vector<std::byte> first = gradients.after(context, problem, args);
  int different = 0;
  for (int i = 1; i < kLaunches; ++i) different += gradients.after(context, problem, args) != first;
  return different;
}

}  // namespace

TEST_CASE("a thousand launches of forward_sm90 with a dynamic schedule give the same bits") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::string common = "kernel=forward_sm90,schedule=2,overlap=1,q_buffers=2,speculative_max=1,";
  const std::string turns = common + "tile_m=192,warps=12,pingpong=1,";
  expect_the_same_bits_with_each_mask(64, common + "tile_m=64,tile_n=64,warps=4,stages=7,ctas_per_sm=3");
  expect_the_same_bits_with_each_mask(64, turns + "tile_n=128,stages=8");
  expect_the_same_bits_with_each_mask(128, turns + "tile_n=80,stages=6");
}

TEST_CASE("a thousand launches of forward_sm80 give the same bits") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right})
    expect_the_same_bits(ragged(128, mask), "kernel=forward_sm80,tile_m=128,tile_n=32,warps=4,stages=2");
}

TEST_CASE("a thousand launches of a bitwise backward give the same bits") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const int head_dim : {64, 128})
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right})
      CHECK(differing_gradients(ragged(head_dim, mask), Determinism::bitwise) == 0);
}
