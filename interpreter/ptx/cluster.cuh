// Special registers of clusters.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE u32 block_rank_in_cluster() {
  return machine->block_rank_in_cluster();
}

FA2_DEVICE u32 blocks_in_cluster() {
  return machine->blocks_in_cluster();
}

}  // namespace fa2::ptx
