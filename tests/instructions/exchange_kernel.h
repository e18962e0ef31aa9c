// A kernel in which the blocks of a cluster pass tiles on in a ring, by bulk copies from shared memory to shared memory.
#pragma once

#include <string>
#include <vector>

#include "../support/small_kernel.h"

namespace fa2::test {

constexpr int kExchangeThreads = 64, kExchangeRounds = 6;

/// p.out receives a float per thread of the grid.
inline SmallKernel exchange_kernel() {
  return {R"(
    const SharedAddress source = dynamic_shared(), destination = source + 1024, full = source + 2048, free = full + 8;
    const u32 rank = block_rank_in_cluster(), blocks = blocks_in_cluster();
    const u32 next = (rank + 1) % blocks, previous = (rank + blocks - 1) % blocks;
    const int t = thread_index();
    if (t == 0) {
      mbarrier_init(full, 1);
      mbarrier_init(free, 64);
      fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    float sum = 0;
    for (u32 n = 0; n < 6; ++n) {
      mbarrier_wait_copies(free, (n & 1) ^ 1);  // the next block has waited for the last tile, and has read it
      st_shared_v4(source + 16 * t, Vector16{{n, block_index(), static_cast<u32>(t), 1}});
      fence_proxy_async_shared();
      bar_sync();
      if (t == 0) {
        mbarrier_arrive_expect_tx(full, 1024);
        bulk_copy_cluster(mapa(destination, next), source, 1024, mapa(full, next));
      }
      mbarrier_wait_copies(full, n & 1);
      const Vector16 v = ld_shared_v4(destination + 16 * (63 - t));
      for (u32 word : v.word) sum = sum * 0.5f + static_cast<float>(word);
      mbarrier_arrive_after_reads(mapa(free, previous));
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    st_global_f32(p.out + 64 * block_index() + t, sum);)",
          "float* out;", kExchangeThreads, 2064};
}

/// Returns what the kernel must write.
inline std::vector<float> exchanged(int blocks, int cluster) {
  std::vector<float> sums;
  for (int block = 0; block < blocks; ++block) {
    const int rank = block % cluster;
    const int previous = block - rank + (rank + cluster - 1) % cluster;
    for (int t = 0; t < kExchangeThreads; ++t) {
      float sum = 0;
      for (int n = 0; n < kExchangeRounds; ++n) {
        for (const int word : {n, previous, 63 - t, 1}) sum = sum * 0.5f + static_cast<float>(word);
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

}  // namespace fa2::test
