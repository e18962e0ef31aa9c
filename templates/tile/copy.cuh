// Copies of tiles between global and shared memory.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/memory.cuh"
#include "tile/shared_tile.cuh"

namespace fa2 {

/// A matrix in global memory. Row r starts `r * stride` elements after `data` and has `cols` elements.
template <int kCols>
struct GlobalRows {
  static constexpr int cols = kCols;
  const u16* data;
  i64 stride;

  FA2_DEVICE const u16* row(int number) const { return data + number * stride; }
};

/// The rows that a tile takes from its source. Other rows become zeros, and their memory is never read.
struct EveryRow {
  static constexpr bool bounded = false;
  FA2_DEVICE bool has(int) const { return true; }
};
struct RowsBefore {
  static constexpr bool bounded = true;
  int end;
  FA2_DEVICE bool has(int row) const { return row < end; }
};
struct RowsWithin {
  static constexpr bool bounded = true;
  int begin, end;
  FA2_DEVICE bool has(int row) const { return row >= begin && row < end; }
};

/// Returns eight elements of a row that is aligned to one element only.
FA2_DEVICE ptx::Vector16 gather_chunk(const u16* source) {
  ptx::Vector16 chunk;
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) {
    const u32 low = ptx::ld_global_u16(source + 2 * i), high = ptx::ld_global_u16(source + 2 * i + 1);
    chunk.word[i] = low | high << 16;
  }
  return chunk;
}

/// Copies rows [0, kRows) of a source that is aligned to one element only. kThreads threads share the work,
/// and this one has number `thread`. The copy is complete on return. The loop is not unrolled, to keep this
/// slow path out of the main loop's registers.
template <int kThreads, int kRows, int kCols, int kSourceCols, class Rows>
FA2_DEVICE void gather_tile(SharedTile<kRows, kCols> tile, GlobalRows<kSourceCols> source, Rows rows,
                            int thread) {
  constexpr int kChunksPerRow = kCols / 8;
  FA2_NO_UNROLL
  for (int i = thread; i < kRows * kChunksPerRow; i += kThreads) {
    const int row = i / kChunksPerRow, col = i % kChunksPerRow * 8;
    const bool exists = rows.has(row) && col < kSourceCols;
    ptx::st_shared_v4(tile.chunk_address(row, col),
                      exists ? gather_chunk(source.data + row * source.stride + col) : ptx::Vector16{});
  }
}

/// Starts to copy `rows` from [0, kRows) of `source` into `tile`. kThreads threads share the work, numbered
/// from 0. Columns beyond the source's become zeros. With kAligned the copy belongs to the current cp.async
/// group, else it is complete on return.
template <int kThreads, bool kAligned, int kRows, int kCols, int kSourceCols, class Rows>
FA2_DEVICE void load_tile(SharedTile<kRows, kCols> tile, GlobalRows<kSourceCols> source, Rows rows,
                          int thread = ptx::thread_index()) {
  if constexpr (!kAligned) return gather_tile<kThreads>(tile, source, rows, thread);
  FA2_UNROLL
  for (int start = 0; start < kCols; start = tile.pages_end(start)) {
    // Consecutive threads cover one row of a page, so that a warp reads whole sectors. A thread's row serves
    // every page of this width.
    const int chunks_per_row = tile.page_width(start) / 8;
    const int rows_per_pass = kThreads / chunks_per_row;
    const int thread_row = thread / chunks_per_row;
    const int chunk = thread % chunks_per_row;
    const u16* from = source.data + thread_row * source.stride + start + chunk * 8;
    FA2_UNROLL
    for (int first = 0; first < kRows; first += rows_per_pass, from += rows_per_pass * source.stride) {
      const int row = first + thread_row;
      if (kRows % rows_per_pass != 0 && row >= kRows) break;
      FA2_UNROLL
      for (int page = start; page < tile.pages_end(start); page += tile.page_width(start)) {
        const SharedAddress to = tile.chunk_address(row, page, chunk);
        const bool whole_page = page + tile.page_width(start) <= kSourceCols;
        if (whole_page && !Rows::bounded) {
          ptx::cp_async_16(to, from + (page - start));
        } else {
          const bool exists = (whole_page || page + chunk * 8 < kSourceCols) && rows.has(row);
          ptx::cp_async_16_zfill(to, from + (page - start), exists ? 16 : 0);
        }
      }
    }
  }
}

/// Like load_tile(), for a source whose row(number) returns where a row begins. Each chunk finds its row.
template <int kThreads, bool kAligned, int kSourceCols, int kRows, int kCols, class Source, class Rows>
FA2_DEVICE void load_rows(SharedTile<kRows, kCols> tile, const Source& source, Rows rows, int thread) {
  constexpr int kChunksPerRow = kCols / 8;
  FA2_NO_UNROLL
  for (int i = thread; i < kRows * kChunksPerRow; i += kThreads) {
    const int row = i / kChunksPerRow, col = i % kChunksPerRow * 8;
    const bool exists = rows.has(row) && col < kSourceCols;
    const u16* const from = source.row(row) + col;
    if constexpr (kAligned) {
      ptx::cp_async_16_zfill(tile.chunk_address(row, col), from, exists ? 16 : 0);
    } else {
      ptx::st_shared_v4(tile.chunk_address(row, col), exists ? gather_chunk(from) : ptx::Vector16{});
    }
  }
}

/// Stores rows [first_row, first_row + kWarpRows) of `tile` with one warp; row r goes to destination.row(r).
/// Rows outside `rows`, and columns from destination.cols on, are not stored.
template <bool kAligned, int kWarpRows, int kRows, int kTileCols, class Destination, class Rows>
FA2_DEVICE void store_tile(const Destination& destination, SharedTile<kRows, kTileCols> tile, int first_row,
                           const Rows& rows) {
  FA2_UNROLL
  for (int page = 0; page < kTileCols; page += tile.page_width(page)) {
    const int chunks_per_row = tile.page_width(page) / 8;
    const int rows_per_pass = 32 / chunks_per_row;
    const int lane_chunk = ptx::lane_index() % chunks_per_row, col = page + lane_chunk * 8;
    FA2_UNROLL
    for (int first = 0; first < kWarpRows; first += rows_per_pass) {
      const int row = first_row + first + ptx::lane_index() / chunks_per_row;
      if (col >= destination.cols || !rows.has(row)) continue;
      const ptx::Vector16 chunk = ptx::ld_shared_v4(tile.chunk_address(row, page, lane_chunk));
      u16* const to = const_cast<u16*>(destination.row(row)) + col;
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
