// setmaxnreg on the device under test: a kernel whose warpgroups exchange registers computes correctly.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("one warpgroup gives registers to two others") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  struct Params {
    float* out;
  };
  // 168 registers per thread at launch. The consumers hold 150 values at once.
  const auto kernel = build({R"(
    if (warpgroup_index() == 0) {
      setmaxnreg_dec<24>();
      st_global_f32(p.out + thread_index(), 1.0f);
    } else {
      setmaxnreg_inc<240>();
      float value[150];
      FA2_UNROLL
      for (int i = 0; i < 150; ++i) value[i] = static_cast<float>(i * thread_index());
      hold_registers(value);
      float sum = 0;
      FA2_UNROLL
      for (int i = 0; i < 150; ++i) sum += value[i];
      st_global_f32(p.out + thread_index(), sum);
    })",
                             "float* out;", 384, 1024});
  const DeviceBuffer out(384 * sizeof(float));
  launch(*kernel, Params{static_cast<float*>(out.data())}, Buffers{}.output(out));
  std::vector<float> values(384);
  out.download(values.data(), out.size());
  for (int thread = 0; thread < 384; ++thread)
    CHECK(values[static_cast<std::size_t>(thread)] ==
          static_cast<float>(thread < 128 ? 1 : 149 * 75 * thread));
}
