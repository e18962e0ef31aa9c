// Special registers and the block's dynamic shared memory.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

using SharedAddress = u32;

FA2_DEVICE int thread_index() {
  return machine->thread_index();
}
FA2_DEVICE u32 block_index() {
  return machine->block_index();
}
FA2_DEVICE int lane_index() {
  return thread_index() % 32;
}
/// A shuffle on a GPU, so all lanes must come.
FA2_DEVICE void come_together(Site site) {
  machine->warp_wide(
      "shfl.sync.idx", [](Machine&, int, void* const*, Site) {}, nullptr, false, site);
}
FA2_DEVICE int warp_index(Site site = {}) {
  come_together(site);
  return thread_index() / 32;
}
FA2_DEVICE int warpgroup_index(Site site = {}) {
  come_together(site);
  return thread_index() / 128;
}
FA2_DEVICE SharedAddress dynamic_shared() {
  return machine->dynamic_shared();
}

}  // namespace fa2::ptx
