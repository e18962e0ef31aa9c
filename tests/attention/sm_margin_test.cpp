// AttentionProblem::sm_margin: launches on fewer SMs keep the numerics contract, and with batch_invariant the bits.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/kernel_spec.h>
#include <interpreter/block_observer.h>
#include <runtime/device.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr const char* kSplit = "kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=2";
constexpr const char* kSplit90 =
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1";
constexpr const char* kPersistent =
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=2,overlap=1";
constexpr const char* kOneTile = "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4";

AttentionProblem decode() {
  return {.head_dim = 64, .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 2, .seqlen_k = 1500};
}

/// Runs the call and returns how many blocks its launch had; 0 on a GPU.
std::size_t run(Context& context, const AttentionProblem& problem, GuardedCall& call) {
  std::size_t blocks = 0;
  const interpreter::ScopedBlockObserver observer([&](std::size_t, std::size_t total) { blocks = total; });
  call.upload();
  context.attention(problem, call.args);
  expect_contract(call);
  return blocks;
}

}  // namespace

TEST_CASE(
    "sm_margin: a persistent kernel has as many blocks as the other SMs run, any other has all of them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const int sms = device(device_under_test()).sm_count;
  for (const auto& [config, per_sm] :
       {std::pair{kSplit, 1}, {kSplit90, 2}, {kPersistent, 2}, {kOneTile, 0}}) {
    if (per_sm != 0 && config != kSplit && cannot_run_sm_90a()) continue;
    INFO(config);
    Context context(pinning(parse_config(config)));
    GuardedCall call(decode());
    AttentionProblem problem = call.problem;
    const std::size_t all = run(context, problem, call);
    problem.sm_margin = sms - 1;
    const std::size_t fewer = run(context, problem, call);
    if (device_under_test() != kInterpreterDevice) continue;
    CHECK(fewer == static_cast<std::size_t>(per_sm == 0 ? all : per_sm));
    CHECK(all == (per_sm == 0 ? 4 : 2 * fewer));  // the interpreter has two SMs
  }
}

TEST_CASE("sm_margin: bits of batch_invariant stay") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = decode();
  problem.batch_invariant = true;
  for (const char* const config : {kSplit, kSplit90}) {
    if (config == kSplit90 && cannot_run_sm_90a()) continue;
    INFO(config);
    Context context(pinning(parse_config(config)));
    GuardedCall call(problem);
    run(context, call.problem, call);
    const auto bits = bits_of(call.out(), problem.dtype);
    const std::vector<float> lse = call.lse();
    AttentionProblem limited = call.problem;
    limited.sm_margin = device(device_under_test()).sm_count - 1;
    run(context, limited, call);
    CHECK(bits_of(call.out(), problem.dtype) == bits);
    CHECK(call.lse() == lse);
  }
}

TEST_CASE("sm_margin: a call that leaves no SM is refused") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedCall call(decode());
  call.problem.sm_margin = device(device_under_test()).sm_count;
  CHECK_THROWS_WITH_AS(context.attention(call.problem, call.args), doctest::Contains("sm_margin = "),
                       InvalidRequest);
  CHECK(call.is_untouched());
}
