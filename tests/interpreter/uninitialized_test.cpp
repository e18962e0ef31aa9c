// Memory that a kernel never wrote must not look like zero.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("an accumulator that was not cleared is NaN, in every block") {
  struct Params {
    float* out;
    int clears;
  };
  const ScopedContext current(device_under_test());
  const auto kernel = build({"float kept[32];\n"
                             "for (int i = 0; i < p.clears; ++i) kept[i] = 0.0f;\n"
                             "st_global_f32(p.out + 32 * block_index() + lane_index(), kept[lane_index()]);",
                             "float* out; int clears;"},
                            {});
  DeviceBuffer buffer(256);
  std::vector<float> out(64);
  for (const int clears : {32, 0}) {
    launch(*kernel, Params{static_cast<float*>(buffer.data()), clears}, Buffers().output(buffer), 2);
    buffer.download(out.data(), buffer.size());
    const auto nans = std::count_if(out.begin(), out.end(), [](float x) { return std::isnan(x); });
    if (clears > 0) CHECK(nans == 0);
    if (clears == 0) CHECK(nans >= 48);  // other bytes hold what earlier calls left there
  }
}
