// The same launch gives the same bits, every time.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kLaunches = 1000;

/// Ragged, and more tiles than a GPU holds blocks at a time: which block gets which one differs from launch
/// to launch where the schedule is dynamic.
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

/// One launch's O and log-sum-exp, end to end.
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
  ContextOptions options = untuned();
  options.config = parse_config(config);
  Context context(options);
  INFO(to_string(problem), " with ", config);
  GuardedCall call(problem);
  run_and_expect_contract(context, call);

  const auto rows = static_cast<std::size_t>(problem.batch * problem.heads_q * problem.seqlen_q);
  DeviceBuffer o(rows * static_cast<std::size_t>(problem.head_dim_v) * sizeof(std::uint16_t));
  DeviceBuffer lse(rows * sizeof(float));
  call.args.o = o.data();
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

}  // namespace

TEST_CASE("a thousand launches of main loop 90 with a dynamic schedule give the same bits") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::string common = "mainloop=90,schedule=2,overlap=1,q_buffers=2,speculative_max=1,";
  const std::string turns = common + "tile_m=192,warps=12,pingpong=1,";
  expect_the_same_bits_with_each_mask(64, common + "tile_m=64,tile_n=64,warps=4,stages=7,ctas_per_sm=3");
  expect_the_same_bits_with_each_mask(64, turns + "tile_n=128,stages=8");
  expect_the_same_bits_with_each_mask(128, turns + "tile_n=80,stages=6");
}

TEST_CASE("a thousand launches of main loop 80 give the same bits") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right})
    expect_the_same_bits(ragged(128, mask), "mainloop=80,tile_m=128,tile_n=32,warps=4,stages=2");
}
