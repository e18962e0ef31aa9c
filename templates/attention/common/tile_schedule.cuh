// Tile schedules: how output tiles are assigned to thread blocks. Host code includes this file too.
#pragma once

namespace fa2 {

/// Values of KernelConfig::schedule.
enum TileSchedule : int {
  kOneTileEach,        ///< a block computes one tile and ends
  kStaticPersistent,   ///< persistent: as many blocks as fit the GPU; each takes every n-th tile
  kDynamicPersistent,  ///< persistent: a block takes the next free tile from a counter of the launch
  kSplitKeys           ///< split KV: persistent blocks get equal ranges of all tiles' KV blocks
                       ///< (split_keys.cuh)
};

/// Thread blocks that may share the keys of a tile, so that they fit a field of its counter (split_keys.cuh).
constexpr int kMostSplitBlocks = 511;

/// Limits with fixed split boundaries: splits per tile, and rows of a tile that is split. A query has `heads` rows.
constexpr int kMostParts = 16;
constexpr int most_split_rows(int heads) {
  return heads > 16 ? heads : 16;
}

}  // namespace fa2
