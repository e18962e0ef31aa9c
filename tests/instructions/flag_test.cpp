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

TEST_CASE("a poll finds what another block has written, or ends") {
  if (cannot_run()) return;
  constexpr int kPair = 2;
  const ScopedContext context(device_under_test());
  DeviceBuffer flag(sizeof(std::uint32_t)), values(4 * sizeof(float));
  flag.fill(0);
  values.fill(0);
  // A block writes its value before it counts, above bits that the poll leaves out. Then it reads the other's, if that
  // has counted. Nobody writes 9.
  const SmallKernel kernel{R"(
    const u32 block = block_index();
    if (thread_index() == 0) {
      st_global_f32(p.sum + block, 1.0f + static_cast<float>(block));
      atom_add_acq_rel_global_u32(p.flag, 1u + (1u << 16));
      const bool both = poll_global_u32(p.flag, 0xffff, 2, 1 << 16);
      const bool never = poll_global_u32(p.flag, 0xffff, 9, 4);
      st_global_f32(p.sum + 2 + block, never ? -1.0f : both ? p.sum[1 - block] : 0.0f);
    })",
                           kParams, 32};
  launch(*build(kernel), Params{static_cast<std::uint32_t*>(flag.data()), static_cast<float*>(values.data())},
         Buffers{}.in_out(flag).in_out(values), kPair);
  std::vector<float> found(4);
  values.download(found.data(), values.size());
  // On a single core the first block ends its poll before the second has begun.
  CHECK((found[2] == 2 || found[2] == 0));
  CHECK((found[3] == 1 || found[3] == 0));
  CHECK(found[2] + found[3] > 0);
}
