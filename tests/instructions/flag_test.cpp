// Blocks that wait for one another, on the device under test.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kBlocks = 500, kThreads = 64;

struct Params {
  std::uint32_t* flag;
  float* sum;
};
constexpr const char* kParams = "u32* flag; float* sum;";

}  // namespace

// The sum of 1 and two 2^-24 depends on the order, so it tells the order in which blocks added.
TEST_CASE("blocks that wait for their turn add in order") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  DeviceBuffer flag(sizeof(std::uint32_t)), sum(kThreads * sizeof(float));
  flag.fill(0);
  sum.fill(0);
  const SmallKernel kernel{R"(
    const u32 block = block_index();
    if (warp_index() == 0) {
      await_global_u32(p.flag, block);
      for (int i = lane_index(); i < 64; i += 32)
        red_add_global_f32(p.sum + i, block % 3 == 0 ? 16777216.0f : block % 3 == 1 ? 1.0f : -16777216.0f);
      bar_warp_sync();
      if (lane_index() == 0) st_release_global_u32(p.flag, block + 1);
    })",
                           kParams, kThreads};
  launch(*build(kernel), Params{static_cast<std::uint32_t*>(flag.data()), static_cast<float*>(sum.data())},
         Buffers{}.in_out(flag).in_out(sum), kBlocks);
  float expected = 0;
  for (int block = 0; block < kBlocks; ++block) {
    volatile float next = expected + (block % 3 == 0 ? 16777216.0f : block % 3 == 1 ? 1.0f : -16777216.0f);
    expected = next;
  }
  std::vector<float> sums(kThreads);
  sum.download(sums.data(), sum.size());
  for (const float each : sums) CHECK(each == expected);
}
