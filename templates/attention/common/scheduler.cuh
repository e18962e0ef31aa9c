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
/// fastest. Under a causal mask the last tile is the longest, so short tiles fill the tail. `section`: the tile's.
FA2_DEVICE TileCoordinates tile_in_sections(u32 tile, u32 section, int q_tiles, int head_count,
                                            const HeadSections& sections) {
  const u32 first_head = section * sections.heads[0].value,
            in_section = tile - first_head * static_cast<u32>(q_tiles);
  const int is_last = first_head + sections.heads[0].value > static_cast<u32>(head_count);
  const Divisor heads = sections.heads[is_last];
  const u32 row = quotient(in_section, heads);
  return {q_tiles - 1 - static_cast<int>(row), static_cast<int>(first_head + in_section - row * heads.value),
          0};
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
    const HeadSections& sections = side.sections();
    const TileCoordinates found =
        tile_in_sections(tile, quotient(tile, sections.tiles), side.tiles(), side.head_count(), sections);
    const int batch = static_cast<int>(quotient(static_cast<u32>(found.head), sections.heads_of_one));
    return {Side::in_order(found.q_tile, side.tiles()), found.head - batch * side.heads(), batch};
  }
};

/// As BatchedTiles, with the entries of a batch in front of its heads: neighbouring tiles may share elements of a capture.
template <class Side>
struct EntriesFirst {
  BatchedTiles<Side> tiles;

  FA2_DEVICE u32 count() const { return tiles.count(); }
  FA2_DEVICE TileCoordinates at(u32 tile) const {
    const TileCoordinates found = tiles.at(tile);
    const int number = found.batch * tiles.side.heads() + found.head;
    const int batch = tiles.side.attention().sequences.batch, head = number / batch;
    return {found.q_tile, head, number - head * batch};
  }
};

/// Returns the tile numbering of a batch whose sequences have equal lengths.
template <class Config, class Side>
FA2_DEVICE auto batched_tiles(const Side& side) {
  if constexpr (Config::score_tiles != 0) {
    return EntriesFirst<Side>{{side}};
  } else {
    return BatchedTiles<Side>{side};
  }
}

}  // namespace fa2
