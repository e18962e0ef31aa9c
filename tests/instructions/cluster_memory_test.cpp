// Accesses to the shared memory of other blocks of the cluster, on the device under test.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <cstdint>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"
#include "exchange_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the `count` floats that a kernel whose only parameter is `float* out` writes.
std::vector<float> output_of(const SmallKernel& kernel, int count, int blocks, int cluster) {
  const ScopedContext context(device_under_test());
  DeviceBuffer out(static_cast<std::size_t>(count) * sizeof(float));
  out.fill(0xff);
  launch(*build(kernel), out.data(), Buffers{}.output(out), blocks, cluster);
  std::vector<float> values(static_cast<std::size_t>(count));
  out.download(values.data(), out.size());
  return values;
}

}  // namespace

TEST_CASE("plain loads and stores reach the same place in another block") {
  if (cannot_run_sm_90a()) return;
  const SmallKernel kernel{R"(
    const SharedAddress s = dynamic_shared();
    const u32 t = static_cast<u32>(thread_index()), other = block_rank_in_cluster() ^ 1;
    st_shared_u32(s + 4 * t, 1000 * block_index() + t);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    const ClusterAddress there = mapa(s, other);
    const u32 read = ld_cluster_u32(there + 4 * (31 - t));
    st_cluster_u32(there + 128 + 4 * t, read + 1);
    if (t < 8) st_cluster_v4(there + 256 + 16 * t, ld_cluster_v4(there + 16 * t));
    barrier_cluster_arrive();
    barrier_cluster_wait();
    float* const out = p.out + 64 * block_index();
    st_global_f32(out + t, static_cast<float>(ld_shared_u32(s + 128 + 4 * t)));
    st_global_f32(out + 32 + t, static_cast<float>(ld_shared_u32(s + 256 + 4 * t)));)",
                           "float* out;", 32};
  const std::vector<float> out = output_of(kernel, 4 * 64, 4, 2);
  for (int block = 0; block < 4; ++block) {
    for (int t = 0; t < 32; ++t) {
      const float* const at = out.data() + 64 * block + t;
      CHECK(at[0] == static_cast<float>(1000 * block + 31 - t + 1));  // the other block read it here
      CHECK(at[32] == static_cast<float>(1000 * block + t));
    }
  }
}

TEST_CASE("arrivals from another block carry what was stored there") {
  if (cannot_run_sm_90a()) return;
  // Two blocks take turns to raise a number, which each leaves in the other's memory.
  const SmallKernel kernel{R"(
    const SharedAddress s = dynamic_shared(), full = s + 128;
    const u32 rank = block_rank_in_cluster();
    const int t = thread_index();
    if (t == 0) mbarrier_init(full, 32);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    u32 value = static_cast<u32>(t);
    for (u32 turn = 0; turn < 9; ++turn) {
      if (rank == 0 || turn > 0) {
        st_cluster_u32(mapa(s + 4 * t, rank ^ 1), 3 * value + rank);
        mbarrier_arrive_cluster(mapa(full, rank ^ 1));
      }
      if (rank == 0 && turn == 8) break;  // block 1 answers no more
      mbarrier_wait_cluster(full, turn & 1);
      value = ld_shared_u32(s + 4 * t);
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    st_global_f32(p.out + 32 * rank + t, static_cast<float>(value));)",
                           "float* out;", 32};
  const std::vector<float> out = output_of(kernel, 64, 2, 2);
  for (int t = 0; t < 32; ++t) {
    auto value = static_cast<std::uint32_t>(t);
    for (int turn = 0; turn < 8; ++turn) value = 3 * (3 * value) + 1;
    CHECK(out[static_cast<std::size_t>(t)] == static_cast<float>(value));
    CHECK(out[static_cast<std::size_t>(32 + t)] == static_cast<float>(3 * value));
  }
}

TEST_CASE("blocks pass tiles on by bulk copies from shared memory to shared memory") {
  if (cannot_run_sm_90a()) return;
  for (const int cluster : {2, 4, 8}) {
    CAPTURE(cluster);
    const int blocks = 2 * cluster;
    CHECK(output_of(exchange_kernel(), kExchangeThreads * blocks, blocks, cluster) ==
          exchanged(blocks, cluster));
  }
}
