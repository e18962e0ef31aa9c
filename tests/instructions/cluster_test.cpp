// Clusters on the device under test: each block's rank, cluster size, and the barrier of all blocks.
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

TEST_CASE("what precedes the barrier of a cluster is there for its other blocks") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  // Each block counts its rounds for the other one to read. Two barriers a round, so that none is early.
  const auto kernel = build(SmallKernel{R"(
    const u32 me = block_index(), other = me ^ 1;
    float sum = 0;
    for (int round = 0; round < 5; ++round) {
      if (thread_index() == 63) p.places[2 * me] = static_cast<float>((round + 1) * (me + 1));
      barrier_cluster_arrive();
      barrier_cluster_wait();
      if (thread_index() == 5) sum = 2 * sum + *const_cast<volatile float*>(p.places + 2 * other);
      barrier_cluster_arrive();
      barrier_cluster_wait();
    }
    if (thread_index() == 5) p.places[2 * me + 1] = sum;)",
                                        "float* places;", 64});
  std::vector<float> places(2 * 6);
  const DeviceBuffer out(places.size() * sizeof(float));
  launch(*kernel, out.data(), Buffers{}.output(out), 6, 2);
  out.download(places.data(), out.size());
  float rounds = 0;
  for (int round = 0; round < 5; ++round) rounds = 2 * rounds + static_cast<float>(round + 1);
  for (std::size_t block = 0; block < 6; ++block)
    CHECK(places[2 * block + 1] == rounds * static_cast<float>((block ^ 1) + 1));
}

TEST_CASE("a grid that is no multiple of the cluster is not launched") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const auto kernel = build(kWritesPlace);
  const DeviceBuffer out(64);
  CHECK_THROWS_WITH_AS(launch(*kernel, out.data(), Buffers{}.output(out), 6, 4),
                       "LaunchShape::grid = 6, must be a multiple of LaunchShape::cluster, 4", Error);
}
