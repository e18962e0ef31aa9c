// Special registers of clusters (sm_90).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// %cluster_ctarank: returns the block's number in its cluster; 0 in a launch without clusters.
FA2_DEVICE u32 block_rank_in_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// %cluster_nctarank: returns the blocks per cluster; 1 in a launch without clusters.
FA2_DEVICE u32 blocks_in_cluster() {
  u32 blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

}  // namespace fa2::ptx
