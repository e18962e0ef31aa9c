// How output tiles are given to thread blocks.
#pragma once

#include <cstdint>

namespace fa2 {

/// The values of KernelConfig::schedule, in the order of Schedule in templates/attention/tile_schedule_sm90.cuh.
enum TileSchedule : std::int32_t {
  kOneTileEach,       ///< a block computes one tile and ends
  kStaticPersistent,  ///< blocks stay, as many as fit the GPU, and take every n-th tile
  kDynamicPersistent  ///< blocks stay and take the next tile that is free, counted by the launch
};

}  // namespace fa2
