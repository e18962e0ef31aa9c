// Pipeline that loads the blocks that a backward tile visits, K and V or Q and dO, from the last block to the
// first.
#pragma once

#include "attention/backward/sm80/layout.cuh"
#include "attention/common/key_blocks.cuh"
#include "ptx/barrier.cuh"
#include "tile/copy.cuh"

namespace fa2 {

/// One float per query each. If key tiles accumulate dQ, `lse` holds exponent_offset() values, and both
/// arrays also cover the padding rows of the last block.
struct QueryStatistics {
  const float* lse;
  const float* delta;
};

/// Config::stages slots of one block each. A block needs both of its tiles to the end. With two or more
/// slots, blocks are fetched stages - 1 ahead, and one barrier per block suffices. A single slot is loaded
/// while all warps wait.
template <class Config, class Blocks>
struct BackwardRing {
  using Layout = BackwardLayout<Config>;
  static constexpr bool one_slot = Config::stages == 1;
  static constexpr int ahead = one_slot ? 1 : Config::stages - 1;

  GlobalRows<Config::head_dim> first;     ///< K or Q
  GlobalRows<Config::head_dim_v> second;  ///< V or dO
  QueryStatistics statistics;             ///< used if the blocks are queries
  Blocks blocks;
  SharedAddress base;
  int current;

  FA2_DEVICE typename Layout::InnerTile first_tile() const { return {slot(current)}; }
  FA2_DEVICE typename Layout::InnerTileV second_tile() const {
    return {slot(current) + Layout::InnerTile::bytes};
  }
  FA2_DEVICE SharedAddress statistics_tile() const { return slot(current) + Layout::tiles_bytes; }

  /// Starts the first loads. No thread may still read a slot.
  FA2_DEVICE void start() {
    current = 0;
    FA2_UNROLL
    for (int i = 0; i < ahead; ++i) fetch(blocks.end - 1 - i, i);
  }

  /// Waits until all threads can read block `n`.
  FA2_DEVICE void await(int n) {
    ptx::cp_async_wait_group<ahead - 1>();
    ptx::bar_sync();
    if constexpr (!one_slot) fetch(n - ahead, current == 0 ? Config::stages - 1 : current - 1);
  }

  /// Releases block `n`.
  FA2_DEVICE void pop(int n) {
    if constexpr (one_slot) {
      ptx::bar_sync();
      fetch(n - 1, 0);
    } else {
      current = current + 1 == Config::stages ? 0 : current + 1;
    }
  }

 private:
  static constexpr int threads = Config::warps * 32;
  static constexpr bool aligned = Config::rows_are_16_byte_aligned;

  FA2_DEVICE SharedAddress slot(int index) const {
    return base + static_cast<u32>(index * Layout::slot_bytes);
  }

  template <int kCols>
  FA2_DEVICE static GlobalRows<kCols> block_of(const GlobalRows<kCols>& rows, int n) {
    return {rows.data + static_cast<i64>(n) * Config::tile_n * rows.stride, rows.stride};
  }

  /// Starts to load block `n`, as one cp.async group. The group is empty if there is no such block.
  FA2_DEVICE void fetch(int n, int index) {
    if (n >= blocks.begin) {
      const int begin = n * Config::tile_n;
      const RowsWithin seen{blocks.key_begin - begin, blocks.key_end - begin};
      load_tile<threads, aligned>(typename Layout::InnerTile{slot(index)}, block_of(first, n), seen);
      const typename Layout::InnerTileV tile{slot(index) + Layout::InnerTile::bytes};
      load_tile<threads, aligned>(tile, block_of(second, n), seen);
      if constexpr (Layout::statistics_bytes > 0)
        fetch_statistics(slot(index) + Layout::tiles_bytes, begin, seen);
    }
    ptx::cp_async_commit_group();
  }

  FA2_DEVICE void fetch_statistics(SharedAddress to, int begin, const RowsWithin& seen) const {
    for (int row = ptx::thread_index(); row < Config::tile_n; row += threads) {
      const int bytes = Config::sums_dq || seen.has(row) ? 4 : 0;
      const SharedAddress at = to + static_cast<u32>(4 * row);
      ptx::cp_async_4_zfill(at, statistics.lse + begin + row, bytes);
      if constexpr (Config::computes_ds)
        ptx::cp_async_4_zfill(at + 4 * Config::tile_n, statistics.delta + begin + row, bytes);
    }
  }
};

}  // namespace fa2
