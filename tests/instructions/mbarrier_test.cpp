// mbarriers, named barriers, elections and shuffles, on the device under test.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

struct OutParams {
  float* out;
};
constexpr const char* kOutParams = "float* out;";

/// Returns what a kernel with the single parameter `float* out` writes there.
std::vector<float> output_of(const SmallKernel& kernel, int count) {
  const ScopedContext context(device_under_test());
  DeviceBuffer out(static_cast<std::size_t>(count) * sizeof(float));
  out.fill(0xff);
  launch(*build(kernel), OutParams{static_cast<float*>(out.data())}, Buffers{}.output(out));
  std::vector<float> values(static_cast<std::size_t>(count));
  out.download(values.data(), out.size());
  return values;
}

}  // namespace

TEST_CASE("a ring of mbarriers passes items from one warp to two others, phase after phase") {
  if (cannot_run_sm_90a()) return;
  const SmallKernel kernel{R"(
    const SharedAddress full = dynamic_shared(), empty = full + 24, slots = full + 128;
    if (thread_index() == 0) {
      for (int slot = 0; slot < 3; ++slot) {
        mbarrier_init(full + 8 * slot, 32);
        mbarrier_init(empty + 8 * slot, 2);
      }
      fence_mbarrier_init();
    }
    bar_sync();
    float sum = 0;
    for (int n = 0; n < 20; ++n) {
      const int slot = n % 3, lane = lane_index();
      const u32 phase = n / 3 & 1;
      if (warp_index() == 0) {
        mbarrier_wait(empty + 8 * slot, phase ^ 1);
        st_shared_u32(slots + 128 * slot + 4 * lane, 32 * n + lane);
        mbarrier_arrive(full + 8 * slot);
      } else {
        mbarrier_wait(full + 8 * slot, phase);
        sum = sum * 0.5f + static_cast<float>(ld_shared_u32(slots + 128 * slot + 4 * (31 - lane)));
        bar_warp_sync();
        if (elect_one()) mbarrier_arrive(empty + 8 * slot);
      }
    }
    st_global_f32(p.out + thread_index(), sum);)",
                           kOutParams, 96};
  const std::vector<float> out = output_of(kernel, 96);
  for (int thread = 32; thread < 96; ++thread) {
    float expected = 0;
    for (int n = 0; n < 20; ++n) expected = expected * 0.5f + static_cast<float>(32 * n + 31 - thread % 32);
    CHECK(out[static_cast<std::size_t>(thread)] == expected);
  }
}

TEST_CASE("named barriers let two warps take turns") {
  if (cannot_run_sm_90a()) return;
  const SmallKernel kernel{R"(
    const int me = warp_index(), lane = lane_index();
    if (me == 0) {
      st_shared_u32(dynamic_shared() + 4 * lane, 1);
      bar_arrive(1, 64);  // gives itself the first turn
    }
    for (int turn = 0; turn < 5; ++turn) {
      bar_sync(1 + me, 64);
      const u32 value = ld_shared_u32(dynamic_shared() + 4 * lane);
      st_shared_u32(dynamic_shared() + 4 * lane, me == 0 ? value + 1 : value * 2);
      bar_arrive(1 + (me ^ 1), 64);
    }
    if (me == 1) st_global_f32(p.out + lane, static_cast<float>(ld_shared_u32(dynamic_shared() + 4 * lane)));)",
                           kOutParams, 64};
  const std::vector<float> out = output_of(kernel, 32);
  int expected = 1;
  for (int turn = 0; turn < 5; ++turn) expected = (expected + 1) * 2;
  for (const float value : out) CHECK(value == static_cast<float>(expected));
}

TEST_CASE("one lane of a warp is elected, the same every time") {
  if (cannot_run_sm_90a()) return;
  const SmallKernel kernel{R"(
    float times = 0;
    for (int i = 0; i < 8; ++i) times += elect_one() ? 1.0f : 0.0f;
    st_global_f32(p.out + thread_index(), times);)",
                           kOutParams, 64};
  const std::vector<float> out = output_of(kernel, 64);
  for (int warp = 0; warp < 2; ++warp) {
    int elected = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const float times = out[static_cast<std::size_t>(32 * warp + lane)];
      CHECK((times == 0 || times == 8));
      elected += times == 8;
    }
    CHECK(elected == 1);
  }
}

TEST_CASE("shfl.sync.idx, and the indices of warps and warpgroups") {
  if (cannot_run_sm_90a()) return;
  const SmallKernel kernel{R"(
    st_global_f32(p.out + thread_index(),
                  static_cast<float>(1000 * warpgroup_index() + 100 * warp_index() + shfl_idx(thread_index(), 7)));)",
                           kOutParams, 256};
  const std::vector<float> out = output_of(kernel, 256);
  for (int thread = 0; thread < 256; ++thread) {
    const int warp = thread / 32;
    CHECK(out[static_cast<std::size_t>(thread)] ==
          static_cast<float>(1000 * (thread / 128) + 100 * warp + 32 * warp + 7));
  }
}
