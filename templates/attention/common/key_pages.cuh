// Paged KV: addresses of a sequence's keys and values (PagedAttention, arXiv 2309.06180).
#pragma once

#include "attention/common/head_rows.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"
#include "tile/shared_tile.cuh"

namespace fa2 {

/// True if pages have too few rows for TMA, whose boxes hold 64 columns of a page: wide heads take many.
template <class Config>
constexpr bool gathers_keys = Config::page_size %
                                  (Config::head_dim > 64 || Config::head_dim_v > 64 ? 32 : 16) !=
                              0;

/// What KeyPages::page_of() returns for keys in no page, with Config::missing_pages.
constexpr int kNoPage = -1;

/// Returns a lane's value.
FA2_DEVICE i64 from_lane(i64 value, int lane) {
  const u32 low = static_cast<u32>(ptx::shfl_idx(static_cast<int>(value), lane));
  return static_cast<i64>(ptx::shfl_idx(static_cast<int>(value >> 32), lane)) << 32 | low;
}

/// The pages of one sequence.
template <class Config>
struct KeyPages {
  const int* table;  ///< page table of the sequence, from its first page on
  int last;          ///< index in `table` of the page with the last key
  int page_count;

  /// Returns a key's page. It exists whatever the table holds, unless it is kNoPage.
  FA2_DEVICE int page_of(int key) const { return page_of_entry(entry_of(key)); }
  /// Returns the table's entry for a key; that of the last key for a later one.
  FA2_DEVICE int entry_of(int key) const {
    const u32 of_key = static_cast<u32>(key) / kRows, of_last = static_cast<u32>(last);
    return ptx::ld_global_s32(table + (of_key < of_last ? of_key : of_last));
  }
  FA2_DEVICE int page_of_entry(int page) const {
    if (Config::missing_pages && static_cast<u32>(page) >= static_cast<u32>(page_count)) return kNoPage;
    const int existing = page < page_count ? page : page_count - 1;
    return existing > 0 ? existing : 0;
  }
  FA2_DEVICE static int row_of(int key) { return static_cast<int>(static_cast<u32>(key) % kRows); }

 private:
  static constexpr u32 kRows = Config::page_size;
};

/// Returns the pages of a sequence, which must have a key.
template <class Config>
FA2_DEVICE KeyPages<Config> key_pages(const AttentionParams& params, const SequenceShape& shape) {
  const SequenceTables& tables = params.sequences;
  return {tables.page_table + shape.k_entry * tables.page_table_stride,
          static_cast<int>(static_cast<u32>(shape.seqlen_k - 1) / Config::page_size), tables.page_count};
}

/// The keys or values of one sequence and head in a paged tensor.
template <class Config, int kCols>
struct PagedRows {
  const u16* data;  ///< the head's first row in page 0
  i64 page_stride;
  i64 row_stride;
  KeyPages<Config> pages;

  static constexpr i64 no_row = static_cast<i64>(1ull << 63);

  /// Returns where a key's row begins, counted from `data`; no_row if its page is missing. `entry`: the table's for the key.
  FA2_DEVICE i64 offset(int key, int entry) const {
    const int page = pages.page_of_entry(entry);
    if (Config::missing_pages && page == kNoPage) return no_row;
    return page * page_stride + KeyPages<Config>::row_of(key) * row_stride;
  }
  FA2_DEVICE i64 offset(int key) const { return offset(key, pages.entry_of(key)); }
};

/// Where the keys of a KV block lie, for keys and values. A ring may look it up while it loads the block before, because the table's
/// entries take as long to arrive as keys do. Keys that are not paged need none.
template <class Config, int kThreads, bool kPaged = (Config::page_size > 0)>
struct BlockEntries {
  template <class Source>
  FA2_DEVICE void look_up(const Source&, int, int) {}
};
template <class Config, int kThreads>
struct BlockEntries<Config, kThreads, true> {
  /// Whether every block lies in one page, which is looked up once.
  static constexpr bool one_page = Config::page_size % Config::tile_n == 0 && !Config::missing_pages;
  /// Else each warp copies neighbouring rows, and a lane looks up one of 32.
  static constexpr int warp_rows = (Config::tile_n + kThreads / 32 - 1) / (kThreads / 32);
  static constexpr int count = one_page ? 1 : (warp_rows + 31) / 32;

  int entry[count] = {};

  template <class Source>
  FA2_DEVICE void look_up(const Source& rows, int n, int thread) {
    const int first = n * Config::tile_n;
    FA2_UNROLL
    for (int i = 0; i < count; ++i)
      entry[i] = rows.pages.entry_of(one_page ? first : first + row_of_lane(i, thread));
  }
  /// Returns the number of the lane's i-th row in the block.
  FA2_DEVICE static int row_of_lane(int i, int thread) {
    const int of_warp = 32 * i + thread % 32;
    return thread / 32 * warp_rows + (of_warp < warp_rows ? of_warp : warp_rows - 1);
  }
};

/// The rows of a KV block whose warps look up each row.
template <class Source, class Entries>
struct GatheredBlock {
  const Source& rows;
  const Entries& entries;
  int first;  ///< key of row 0
};

/// The rows of one head of K or V, paged or not.
template <class Config, int kCols, bool kPaged = (Config::page_size > 0)>
struct KeyRows {
  using Source = GlobalRows<kCols>;

  FA2_DEVICE static Source of(const AttentionParams&, const void* data, const Strides& strides,
                              const SequenceShape& shape, int head) {
    return head_rows<kCols>(data, strides, shape.k_entry, head, shape.k_begin);
  }
  /// Returns the rows from KV block `n` on.
  template <class Entries>
  FA2_DEVICE static Source block(const Source& rows, int n, const Entries&) {
    return {rows.data + static_cast<i64>(n) * Config::tile_n * rows.stride, rows.stride};
  }
};

template <class Config, int kCols>
struct KeyRows<Config, kCols, true> {
  using Source = PagedRows<Config, kCols>;

  FA2_DEVICE static Source of(const AttentionParams& params, const void* data, const Strides& strides,
                              const SequenceShape& shape, int head) {
    return {static_cast<const u16*>(data) + head * strides.head_stride, strides.batch_stride,
            strides.row_stride, key_pages<Config>(params, shape)};
  }
  /// Returns the rows of KV block `n`, which has been looked up.
  template <class Entries>
  FA2_DEVICE static auto block(const Source& rows, int n, const Entries& entries) {
    const int first = n * Config::tile_n;
    if constexpr (Entries::one_page) {
      return GlobalRows<kCols>{rows.data + rows.offset(first, entries.entry[0]), rows.row_stride};
    } else {
      return GatheredBlock<Source, Entries>{rows, entries, first};
    }
  }
};

/// The keys of one sequence whose pages are missing.
template <class Config, bool kPresent = Config::missing_pages>
struct MissingKeys {
  template <class Scores>
  FA2_DEVICE void hide(Scores&, int) const {}
};
template <class Config>
struct MissingKeys<Config, true> {
  KeyPages<Config> pages;

  /// Sets their scores to -inf. The tile begins at key `first_key`.
  template <int kM, int kN>
  FA2_DEVICE void hide(AccumulatorTile<kM, kN>& scores, int first_key) const {
    FA2_UNROLL
    for (int begin = 0; begin < kN; begin += 4) {  // a lane looks up one of 32 keys for all
      const int key = first_key + 8 * begin + ptx::lane_index();
      const u32 missing = ptx::vote_ballot(pages.page_of(key) == kNoPage);
      if (missing == 0) continue;
      FA2_UNROLL
      for (int n = begin; n < kN && n < begin + 4; ++n) {
        FA2_UNROLL
        for (int col = 0; col < 2; ++col) {
          if ((missing >> (8 * (n - begin) + fragment_col() + col) & 1) == 0) continue;
          FA2_UNROLL
          for (int m = 0; m < kM; ++m)
            scores.value[m][n][col] = scores.value[m][n][col + 2] = -ptx::infinity();
        }
      }
    }
  }
};

template <class Config>
FA2_DEVICE MissingKeys<Config> missing_keys(const AttentionParams& params, const SequenceShape& shape) {
  if constexpr (Config::missing_pages) {
    return {key_pages<Config>(params, shape)};
  } else {
    return {};
  }
}

/// Returns the lanes that copy a row together: 8 copy 128 bytes at once, without bank conflicts; fewer if a row has fewer chunks.
constexpr int lanes_of_row(int chunks) {
  int lanes = 1;
  while (lanes < chunks && lanes < 8) lanes *= 2;
  return lanes;
}

/// Like load_tile() in tile/copy.cuh, for rows that lie anywhere.
template <int kThreads, bool kAligned, int kRows, int kCols, class Config, int kSourceCols, class Entries,
          class Rows>
FA2_DEVICE void load_tile(SharedTile<kRows, kCols> tile,
                          const GatheredBlock<PagedRows<Config, kSourceCols>, Entries>& block, Rows rows,
                          int thread) {
  using Source = PagedRows<Config, kSourceCols>;
  constexpr int kLanes = lanes_of_row(kCols / 8), kRowsAtOnce = 32 / kLanes, kWarpRows = Entries::warp_rows;
  const int lane = thread % 32, warp_row = thread / 32 * kWarpRows;
  FA2_UNROLL
  for (int i = 0; i < Entries::count; ++i) {
    const int own = Entries::row_of_lane(i, thread), first = warp_row + 32 * i;
    const i64 own_offset =
        rows.has(own) ? block.rows.offset(block.first + own, block.entries.entry[i]) : Source::no_row;
    const int count = kWarpRows - 32 * i < 32 ? kWarpRows - 32 * i : 32;
    FA2_UNROLL_BY(4)
    for (int step = 0; step < count; step += kRowsAtOnce) {
      const int number = step + lane / kLanes, row = first + number;
      const i64 offset = from_lane(own_offset, number);
      if (number >= count || row >= kRows) continue;
      FA2_UNROLL
      for (int col = lane % kLanes * 8; col < kCols; col += kLanes * 8) {
        const u16* const from = block.rows.data + offset + col;
        const bool exists = offset != Source::no_row && col < kSourceCols;
        if constexpr (kAligned) {
          ptx::cp_async_16_zfill(tile.chunk_address(row, col), from, exists ? 16 : 0);
        } else {
          ptx::st_shared_v4(tile.chunk_address(row, col), exists ? gather_chunk(from) : ptx::Vector16{});
        }
      }
    }
  }
}

}  // namespace fa2
