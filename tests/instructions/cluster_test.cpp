// Clusters on the device under test: each block's rank and cluster size.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/device.h>

#include <cstddef>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Writes each block's rank, and the number of blocks in its cluster.
const SmallKernel kWritesPlace = {
    "if (thread_index() == 0) {\n"
    "  st_global_f32(p.places + 2 * block_index(), static_cast<float>(block_rank_in_cluster()));\n"
    "  st_global_f32(p.places + 2 * block_index() + 1, static_cast<float>(blocks_in_cluster()));\n"
    "}",
    "float* places;"};

}  // namespace

TEST_CASE("a block knows its rank, and the size of its cluster") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const auto kernel = build(kWritesPlace);
  for (const int cluster : {1, 2, 4, 8}) {
    const int blocks = 3 * cluster;
    std::vector<float> places(2 * static_cast<std::size_t>(blocks));
    const DeviceBuffer out(places.size() * sizeof(float));
    launch(*kernel, out.data(), Buffers{}.output(out), blocks, cluster);
    out.download(places.data(), out.size());
    for (int block = 0; block < blocks; ++block) {
      CAPTURE(block);
      CHECK(places[2 * static_cast<std::size_t>(block)] == static_cast<float>(block % cluster));
      CHECK(places[2 * static_cast<std::size_t>(block) + 1] == static_cast<float>(cluster));
    }
  }
}

TEST_CASE("a grid that is no multiple of the cluster is not launched") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const auto kernel = build(kWritesPlace);
  const DeviceBuffer out(64);
  CHECK_THROWS_WITH_AS(launch(*kernel, out.data(), Buffers{}.output(out), 6, 4),
                       "LaunchShape::grid = 6, must be a multiple of LaunchShape::cluster, 4", Error);
}
