// Loads of paged KV blocks into the ring. TMA loads contiguous rows that fill whole swizzles; otherwise
// cp.async gathers row by row, or warps widen rows (widened_rows.cuh).
#pragma once

#include "attention/common/key_pages.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/proxy.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

constexpr int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}

/// A row of a paged tensor.
struct PageRow {
  int page;
  int row;  ///< row in the page
};

/// The pages of one KV block. The block is loaded in pieces of contiguous rows; gathered pieces have one row.
/// Each lane looks up every 32nd piece.
template <class Config>
struct BlockPages {
  static constexpr bool gathers = copies_rows<Config>;
  static constexpr int piece_rows = gathers ? 1 : greatest_common_divisor(Config::page_size, Config::tile_n);
  /// Pieces that one warp loads.
  static constexpr int pieces = Config::tile_n / piece_rows / loading_warps<Config>;
  static constexpr int per_lane = (pieces + 31) / 32;
  static_assert(per_lane <= 2 && (gathers || piece_rows % 16 == 0), "pieces of whole swizzles");

  int page[per_lane];

  /// Returns the first key of a warp's pieces of block `n`.
  FA2_DEVICE static int first_key(int n, int warp) { return n * Config::tile_n + warp * pieces * piece_rows; }

  /// Looks up a warp's pieces, which begin with key `key`.
  FA2_DEVICE void look_up(const KeyPages<Config>& pages, int key) {
    FA2_UNROLL
    for (int i = 0; i < per_lane; ++i) {
      const int piece = 32 * i + ptx::lane_index();
      page[i] = pages.page_of(key + piece_rows * (piece < pieces ? piece : 0));
    }
  }

  /// Returns the row at which a piece begins that TMA loads. TMA writes zeros for kNoPage. `key`: the first key of the
  /// warp's pieces. The whole warp must call it.
  FA2_DEVICE PageRow at(int piece, int key) const {
    static_assert(per_lane == 1, "a lane looks up at most one piece for TMA");
    return {ptx::shfl_idx(page[0], piece), KeyPages<Config>::row_of(key + piece_rows * piece)};
  }
};

/// Returns the largest divisor of `pieces` up to 8.
constexpr int pieces_at_once(int pieces) {
  int most = pieces < 8 ? pieces : 8;
  while (pieces % most != 0) --most;
  return most;
}

/// Starts to load a block into `tile`. `key`: the block's first key. The mbarrier must already expect its bytes. The places of some pieces are
/// found together, because each takes the latency of a shuffle.
template <int kCols, class Config, class Tile>
FA2_DEVICE void load_pieces(Tile tile, const TensorMap& map, const BlockPages<Config>& pages, int key,
                            int head, SharedAddress full) {
  constexpr int kAtOnce = pieces_at_once(BlockPages<Config>::pieces);
  FA2_NO_UNROLL
  for (int first = 0; first < pages.pieces; first += kAtOnce) {
    PageRow at[kAtOnce];
    FA2_UNROLL
    for (int i = 0; i < kAtOnce; ++i) at[i] = pages.at(first + i, key);
    if (!ptx::elect_one()) continue;
    FA2_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const Tile to{tile.base + static_cast<u32>((first + i) * pages.piece_rows * Tile::span)};
      tma_load_tile<PagedShape<kCols>>(to, map, {0, at[i].row, head, at[i].page}, full);
    }
  }
  ptx::bar_warp_sync();
}

/// The offsets of a warp's rows in a tensor; elements. A row of a missing page has kNoRow. A lane computes those of the rows
/// that it looked up, the first of which holds key `key`.
template <class Config>
struct RowOffsets {
  using Pages = BlockPages<Config>;
  static constexpr i64 kNoRow = -1;
  i64 own[Pages::per_lane];

  FA2_DEVICE RowOffsets(const Pages& pages, int key, const Strides& strides) {
    FA2_UNROLL
    for (int i = 0; i < Pages::per_lane; ++i) {
      const int of_lane = key + 32 * i + ptx::lane_index();
      if constexpr (Config::page_size == 0) {
        own[i] = of_lane * strides.row_stride;
      } else {
        own[i] =
            pages.page[i] * strides.batch_stride + KeyPages<Config>::row_of(of_lane) * strides.row_stride;
        if (Config::missing_pages && pages.page[i] == kNoPage) own[i] = kNoRow;
      }
    }
  }

  /// Returns the offset of a row, which may differ between lanes. The whole warp must call it.
  FA2_DEVICE i64 of(int row) const {
    i64 found = from_lane(own[0], row % 32);
    if constexpr (Pages::per_lane > 1) {
      const i64 of_second = from_lane(own[1], row % 32);
      if (row >= 32) found = of_second;
    }
    return found;
  }
};

/// Starts to gather this warp's rows of a block, from the tile's `first_row` on, which hold keys from `key` on.
/// Rows outside `seen`, and of missing pages, become zeros. `data`: the head's first row in page 0.
template <int kCols, class Config, class Tile>
FA2_DEVICE void gather_rows(Tile tile, int first_row, int key, const u16* data, const Strides& strides,
                            const BlockPages<Config>& pages, const RowsWithin& seen) {
  // Neighbouring lanes copy a row of one group of columns. A lane's row and address serve every group.
  constexpr int kChunks = Tile::group_cols / 8, kRowsAtOnce = 32 / kChunks,
                kRows = BlockPages<Config>::pieces;
  const int lane_row = ptx::lane_index() / kChunks, col = ptx::lane_index() % kChunks * 8;
  const RowOffsets<Config> offsets(pages, key, strides);
  // A producer that also searches for its range has registers for few addresses.
  constexpr int kUnrolled = Config::schedule == kSplitKeys ? 1 : kRows;
  FA2_UNROLL_BY(kUnrolled)
  for (int first = 0; first < kRows; first += kRowsAtOnce) {
    const int row = first + lane_row;
    const i64 offset = offsets.of(row);
    const u16* const from = data + offset + col;
    if (kRows % kRowsAtOnce != 0 && row >= kRows) continue;
    const SharedAddress to = tile.chunk_address(first_row + row, col);
    const bool is_seen =
        seen.has(first_row + row) && (!Config::missing_pages || offset != RowOffsets<Config>::kNoRow);
    FA2_UNROLL
    for (int group = 0; group < Tile::groups; ++group) {
      const int group_col = group * Tile::group_cols;
      const bool exists = is_seen && (group_col + Tile::group_cols <= kCols || group_col + col < kCols);
      ptx::cp_async_16_zfill(to + static_cast<u32>(group * Tile::group_bytes), from + group_col,
                             exists ? 16 : 0);
    }
  }
}

}  // namespace fa2
