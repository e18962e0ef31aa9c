// Tiles between global and shared memory.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/memory.cuh"
#include "tile/shared_tile.cuh"

namespace fa2 {

/// A matrix in global memory: row r starts `r * stride` elements after `data`; `cols` elements of each row
/// exist.
template <int kCols>
struct GlobalRows {
  static constexpr int cols = kCols;
  const u16* data;
  i64 stride;
};

/// Eight elements of a row that is aligned to one element only.
FA2_DEVICE ptx::Vector16 gather_chunk(const u16* source) {
  ptx::Vector16 chunk;
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) {
    const u32 low = ptx::ld_global_u16(source + 2 * i), high = ptx::ld_global_u16(source + 2 * i + 1);
    chunk.word[i] = low | high << 16;
  }
  return chunk;
}

/// One 16-byte chunk into shared memory, or zeros if `exists` is false. kBounded: `exists` may be false.
template <bool kAligned, bool kBounded>
FA2_DEVICE void copy_chunk(SharedAddress destination, const u16* source, bool exists) {
  if constexpr (!kAligned) {
    ptx::st_shared_v4(destination, exists ? gather_chunk(source) : ptx::Vector16{});
  } else if constexpr (kBounded) {
    ptx::cp_async_16_zfill(destination, source, exists ? 16 : 0);
  } else {
    ptx::cp_async_16(destination, source);
  }
}

/// Starts copying rows [0, kRows) of `source` into `tile`, by all kThreads of the block. Columns beyond the
/// source's arrive as zeros; kBounded: so do rows at and beyond `row_count`, whose memory is never read. With
/// kAligned the copy is asynchronous (cp.async of the current group), else it is done on return.
template <int kThreads, bool kAligned, bool kBounded, int kRows, int kCols, int kSourceCols>
FA2_DEVICE void load_tile(SharedTile<kRows, kCols> tile, GlobalRows<kSourceCols> source,
                          int row_count = kRows) {
  FA2_UNROLL
  for (int start = 0; start < kCols; start = tile.pages_end(start)) {
    // Consecutive threads cover one row of a page, so that a warp reads whole sectors; a thread's row serves
    // every page of this width.
    const int chunks_per_row = tile.page_width(start) / 8;
    const int rows_per_pass = kThreads / chunks_per_row;
    const int thread_row = ptx::thread_index() / chunks_per_row;
    const int chunk = ptx::thread_index() % chunks_per_row;
    const u16* from = source.data + thread_row * source.stride + start + chunk * 8;
    FA2_UNROLL
    for (int first = 0; first < kRows; first += rows_per_pass, from += rows_per_pass * source.stride) {
      const int row = first + thread_row;
      if (kRows % rows_per_pass != 0 && row >= kRows) break;
      FA2_UNROLL
      for (int page = start; page < tile.pages_end(start); page += tile.page_width(start)) {
        const SharedAddress to = tile.chunk_address(row, page, chunk);
        if (page + tile.page_width(start) <= kSourceCols) {
          copy_chunk<kAligned, kBounded>(to, from + (page - start), row < row_count);
        } else {
          const bool column_exists = page + chunk * 8 < kSourceCols;
          copy_chunk<kAligned, true>(to, from + (page - start),
                                     column_exists && (!kBounded || row < row_count));
        }
      }
    }
  }
}

/// Writes rows [first_row, first_row + kWarpRows) of `tile` to `destination` (row r of the tile to row r), by
/// one warp. Rows at and beyond `row_count` and columns beyond kCols of the destination are not written.
template <bool kAligned, int kWarpRows, int kRows, int kTileCols, int kCols>
FA2_DEVICE void store_tile(GlobalRows<kCols> destination, SharedTile<kRows, kTileCols> tile, int first_row,
                           int row_count) {
  FA2_UNROLL
  for (int page = 0; page < kTileCols; page += tile.page_width(page)) {
    const int chunks_per_row = tile.page_width(page) / 8;
    const int rows_per_pass = 32 / chunks_per_row;
    const int lane_chunk = ptx::lane_index() % chunks_per_row, col = page + lane_chunk * 8;
    FA2_UNROLL
    for (int first = 0; first < kWarpRows; first += rows_per_pass) {
      const int row = first_row + first + ptx::lane_index() / chunks_per_row;
      if (row >= row_count || col >= kCols) continue;
      const ptx::Vector16 chunk = ptx::ld_shared_v4(tile.chunk_address(row, page, lane_chunk));
      u16* const to = const_cast<u16*>(destination.data) + row * destination.stride + col;
      if constexpr (kAligned) {
        ptx::st_global_v4(to, chunk);
      } else {
        FA2_UNROLL
        for (int i = 0; i < 8; ++i) {
          ptx::st_global_u16(to + i, static_cast<u16>(chunk.word[i / 2] >> (i % 2 * 16)));
        }
      }
    }
  }
}

}  // namespace fa2
