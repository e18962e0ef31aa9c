// The output tiles of attention, and the order in which blocks compute them.
#pragma once

#include "attention/common/params.cuh"
#include "ptx/registers.cuh"

namespace fa2 {

/// Coordinates of a query tile. In kernels whose rows are keys: of a key tile and its key/value head.
struct TileCoordinates {
  int q_tile;  ///< index of the tile; negative: there is no tile
  int head;    ///< query head
  int batch;

  FA2_DEVICE bool exist() const { return q_tile >= 0; }
};

constexpr TileCoordinates kNoTile{-1, 0, 0};

/// Returns the coordinates of number `tile` in a grid with one block per tile and head (FlashAttention-2,
/// section 3.2). Heads are grouped in sections. Inside a section, tiles run from the last to the first, heads
/// fastest. Under a causal mask the last tile is the longest, so short tiles fill the tail.
FA2_DEVICE TileCoordinates tile_in_sections(u32 tile, int q_tiles, int head_count, int heads_per_section) {
  const u32 tiles_per_section = static_cast<u32>(heads_per_section) * static_cast<u32>(q_tiles);
  const u32 section = tile / tiles_per_section, in_section = tile % tiles_per_section;
  const int first_head = static_cast<int>(section) * heads_per_section;
  const int left = head_count - first_head;
  const u32 heads = static_cast<u32>(left < heads_per_section ? left : heads_per_section);
  return {q_tiles - 1 - static_cast<int>(in_section / heads),
          first_head + static_cast<int>(in_section % heads), 0};
}

/// The tiles of a batch whose sequences have equal lengths. Sections span the heads of all entries. `Side`:
/// see tile_sides.cuh.
template <class Side>
struct BatchedTiles {
  Side side;

  FA2_DEVICE u32 count() const {
    return static_cast<u32>(side.tiles()) * static_cast<u32>(side.head_count());
  }
  FA2_DEVICE TileCoordinates at(u32 tile) const {
    const TileCoordinates found =
        tile_in_sections(tile, side.tiles(), side.head_count(), side.heads_per_section());
    return {Side::in_order(found.q_tile, side.tiles()), found.head % side.heads(), found.head / side.heads()};
  }
};

}  // namespace fa2
