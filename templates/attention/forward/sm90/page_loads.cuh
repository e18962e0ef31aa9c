// Loads of paged KV blocks into the ring. TMA loads contiguous rows that fill whole swizzles; otherwise
// cp.async gathers row by row.
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

/// The pages of one KV block. The block is loaded in pieces of contiguous rows; gathered pieces have one row.
/// Each lane looks up every 32nd piece.
template <class Config>
struct BlockPages {
  static constexpr bool gathers = gathers_keys<Config>;
  static constexpr int piece_rows = gathers ? 1 : greatest_common_divisor(Config::page_size, Config::tile_n);
  /// Pieces that one warp loads.
  static constexpr int pieces = Config::tile_n / piece_rows / loading_warps<Config>;
  static constexpr int per_lane = (pieces + 31) / 32;
  static_assert(per_lane <= 2 && (gathers || piece_rows % 16 == 0), "pieces of whole swizzles");

  int first_key;
  int page[per_lane];

  /// Looks up this warp's pieces, which begin with key `key`.
  FA2_DEVICE void look_up(const KeyPages<Config>& pages, int key) {
    first_key = key;
    FA2_UNROLL
    for (int i = 0; i < per_lane; ++i) {
      const int piece = 32 * i + ptx::lane_index();
      page[i] = pages.page_of(key + piece_rows * (piece < pieces ? piece : 0));
    }
  }

  /// Returns the row at which a piece begins. The whole warp must call it.
  FA2_DEVICE PageRow at(int piece) const {
    int found = ptx::shfl_idx(page[0], piece % 32);
    if constexpr (per_lane > 1) {
      const int of_second = ptx::shfl_idx(page[1], piece % 32);
      if (piece >= 32) found = of_second;
    }
    return {found, KeyPages<Config>::row_of(first_key + piece_rows * piece)};
  }
};

/// Starts to load a block into `tile`. The mbarrier must already expect its bytes.
template <int kCols, class Config, class Tile>
FA2_DEVICE void load_pieces(Tile tile, const TensorMap& map, const BlockPages<Config>& pages, int head,
                            SharedAddress full) {
  FA2_NO_UNROLL
  for (int piece = 0; piece < pages.pieces; ++piece) {
    const PageRow at = pages.at(piece);
    const Tile to{tile.base + static_cast<u32>(piece * pages.piece_rows * Tile::span)};
    if (ptx::elect_one()) tma_load_tile<PagedShape<kCols>>(to, map, {0, at.row, head, at.page}, full);
  }
  ptx::bar_warp_sync();
}

/// Starts to gather this warp's rows of a block, from the tile's `first_row` on. Rows outside `seen` become
/// zeros. `data`: the head's first row in page 0.
template <int kCols, class Config, class Tile>
FA2_DEVICE void gather_rows(Tile tile, int first_row, const u16* data, const Strides& strides,
                            const BlockPages<Config>& pages, const RowsWithin& seen) {
  constexpr int kChunks = Tile::cols / 8, kRows = BlockPages<Config>::pieces;
  constexpr int kPasses = (kRows * kChunks + 31) / 32;
  FA2_UNROLL_BY_4
  for (int pass = 0; pass < kPasses; ++pass) {
    const int chunk = 32 * pass + ptx::lane_index(), row = chunk / kChunks, col = chunk % kChunks * 8;
    const PageRow at = pages.at(row);
    if (row >= kRows) continue;
    const bool exists = col < kCols && seen.has(first_row + row);
    const u16* const from = data + at.page * strides.batch_stride + at.row * strides.row_stride + col;
    ptx::cp_async_16_zfill(tile.chunk_address(first_row + row, col), from, exists ? 16 : 0);
  }
}

/// The slots that a warp is filling. It hands them to the consumers in the order in which it began them.
template <class Config>
struct GatheredSlots {
  /// Most slots in flight. Consumers may wait for two slots before they release one.
  static constexpr int most_ahead = Config::stages < 5 ? Config::stages - 2 : 3;

  SharedLayoutSm90<Config> shared;
  PipelineState<Config::stages> oldest;
  int in_flight = 0;

  /// Ends the copies into one slot. Must follow the last of them.
  FA2_DEVICE void commit() {
    ptx::cp_async_commit_group();
    if (++in_flight <= most_ahead) return;
    ptx::cp_async_wait_group<most_ahead>();
    hand_on();
  }

  /// Hands on all slots. The warp must call it before it waits for anything but an empty slot.
  FA2_DEVICE void finish() {
    ptx::cp_async_wait_group<0>();
    while (in_flight > 0) hand_on();
  }

 private:
  /// Hands on the oldest slot. cp.async wrote through the generic proxy and wgmma reads through the async
  /// proxy, so a fence comes first.
  FA2_DEVICE void hand_on() {
    ptx::fence_proxy_async_shared();
    ptx::bar_warp_sync();
    if (ptx::elect_one()) ptx::mbarrier_arrive(shared.slot_full(oldest.index));
    oldest.advance();
    --in_flight;
  }
};

}  // namespace fa2
