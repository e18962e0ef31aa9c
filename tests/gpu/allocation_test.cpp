// After its first run, a call allocates no host memory on a GPU, with forward_sm80 and with forward_sm90.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <string>
#include <thread>

#include "../support/allocations.h"
#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the allocations of the second `call` on a thread without a CUDA context. There, every call makes
/// one current.
template <class Call>
std::size_t allocations_without_context(const Call& call) {
  std::size_t counted = 0;
  std::thread([&] {
    call();
    counted = allocations_of(call);
  }).join();
  return counted;
}

void expect_no_allocation(const std::string& config) {
  const ScopedContext current(0);
  Context context(pinning(parse_config(config)));
  INFO(config);
  GuardedCall call(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 97, 130));
  const AttentionPlan plan = context.plan(call.problem);
  const OwnedStream stream;
  const auto run = [&] { plan.run(call.args, stream.get()); };
  const auto attention = [&] { context.attention(call.problem, call.args, stream.get()); };
  run();
  attention();
  for (int i = 0; i < 3; ++i) {
    CHECK(allocations_of(run) == 0);
    CHECK(allocations_of(attention) == 0);
  }
  stream.synchronize();
  expect_contract(call);
  // The default stream belongs to the context that the call makes current.
  CHECK(allocations_without_context([&] { plan.run(call.args); }) == 0);
  CHECK(allocations_without_context([&] { context.attention(call.problem, call.args); }) == 0);
}

}  // namespace

TEST_CASE("a call of forward_sm80 allocates nothing") {
  if (cannot_run()) return;
  expect_no_allocation("kernel=forward_sm80,tile_m=128,tile_n=64,warps=4,stages=2");
}

TEST_CASE("a call of forward_sm90 allocates nothing") {
  if (cannot_run_sm_90a()) return;
  const std::string common =
      "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,";
  for (const char* schedule : {"schedule=0", "schedule=1", "schedule=2"})
    expect_no_allocation(common + schedule);
}
