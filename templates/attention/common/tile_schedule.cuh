// How output tiles are given to thread blocks. Host code includes this file too.
#pragma once

namespace fa2 {

/// The values of KernelConfig::schedule.
enum TileSchedule : int {
  kOneTileEach,        ///< a block computes one tile and ends
  kStaticPersistent,   ///< blocks stay, as many as fit the GPU, and take every n-th tile
  kDynamicPersistent,  ///< blocks stay and take the next tile that is free, counted by the launch
  kSplitKeys           ///< blocks stay and share out all tiles' keys evenly (split_keys.cuh)
};

/// Where split keys have fixed borders: the parts of a tile, and the rows of what is split.
constexpr int kMostParts = 16;
constexpr int most_split_rows(int packed_heads) {
  return packed_heads > 16 ? packed_heads : 16;
}

}  // namespace fa2
