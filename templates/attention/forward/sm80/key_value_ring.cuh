// Pipeline that loads K and V blocks into shared memory with cp.async, from the last block to the first.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/common/key_pages.cuh"
#include "attention/common/shared_layout.cuh"
#include "ptx/barrier.cuh"
#include "tile/copy.cuh"

namespace fa2 {

/// The threads that share a ring: all threads of a block, or one warp.
template <class Config>
struct WholeBlock {
  static constexpr int threads = Config::warps * 32;
  FA2_DEVICE static int thread() { return ptx::thread_index(); }
  FA2_DEVICE static void sync() { ptx::bar_sync(); }
};
struct OneWarp {
  static constexpr int threads = 32;
  FA2_DEVICE static int thread() { return ptx::lane_index(); }
  FA2_DEVICE static void sync() { ptx::bar_warp_sync(); }
};

/// Config::stages slots, each with one K and one V block.
/// With two or more slots, blocks are fetched stages - 1 ahead, and one barrier per block suffices. With one
/// slot, V loads during S = Q K^T, and the next K loads during softmax and P V, which takes a second barrier.
template <class Config, class Team = WholeBlock<Config>>
struct KeyValueRing {
  using Layout = SharedLayout<Config>;
  static constexpr bool one_slot = Config::stages == 1;
  static_assert(!one_slot || !Config::values_in_keys, "a slot holds keys until their values have been used");
  /// Whether a block's pages are looked up while the one before is loaded. A warp with more rows has no register for that.
  static constexpr bool looks_ahead = Config::tile_m <= 16 * Config::warps;
  /// cp.async groups that start() leaves in flight.
  static constexpr int started_groups = one_slot ? 1 : Config::stages - 1;

  using Format = KeyValueFormat<Config>;
  using Keys = KeyRows<Config, Format::template stored_cols<Config::head_dim>>;
  using Values = KeyRows<Config, Format::template stored_cols<Config::head_dim_v>>;

  typename Keys::Source k;
  typename Values::Source v;
  SharedAddress base;
  KeyBlocks<Config> blocks;
  BlockEntries<Config, Team::threads> entries;  ///< of the block that is loaded, or next
  int current;  ///< slot that is being read; the slot before it is overwritten next
  int newest;   ///< with a map: the last block of which a load has started

  FA2_DEVICE typename Layout::KeyTile keys() const { return {slot(current)}; }
  FA2_DEVICE typename Layout::ValueTile values() const { return {slot(current) + Layout::values_start}; }

  /// Starts the first loads.
  FA2_DEVICE void start() {
    current = 0;
    const int last = blocks.end - 1;
    if (looks_ahead && last >= blocks.begin) look_up(last);
    fetch<one_slot>(last, 0, outer_rows(last));
    if constexpr (Config::key_map != 0) newest = last;
    FA2_UNROLL
    for (int ahead = 1; ahead < started_groups; ++ahead) {
      const int next = next_after(last, ahead);
      fetch<false>(next, ahead, inner_rows(next));
    }
  }

  /// Waits until all threads can read block `n`'s keys. Starts a load into the slot that has just become
  /// free.
  FA2_DEVICE void await_keys(int n) {
    ptx::cp_async_wait_group<one_slot ? 0 : Config::stages - 2>();
    Team::sync();
    if constexpr (one_slot) {
      load_values(values(), n, outer_rows(n));
      ptx::cp_async_commit_group();
    } else {
      const int next = next_after(n, started_groups);
      fetch<false>(next, current == 0 ? Config::stages - 1 : current - 1, inner_rows(next));
    }
  }

  /// Waits until all threads can read block `n`'s values.
  FA2_DEVICE void await_values(int n) {
    if constexpr (one_slot) {
      ptx::cp_async_wait_group<0>();
      Team::sync();
      const int next = blocks.has_map ? blocks.below(n) : n - 1;
      fetch<true>(next, 0, inner_rows(next));
    }
  }

  /// Releases the current block.
  FA2_DEVICE void pop() {
    if constexpr (!one_slot) current = current + 1 == Config::stages ? 0 : current + 1;
  }

 private:
  FA2_DEVICE SharedAddress slot(int index) const {
    return base + static_cast<u32>(index * Layout::slot_bytes);
  }

  /// Returns the next block to load, which is `count` blocks after block `n`.
  FA2_DEVICE int next_after(int n, int count) {
    if constexpr (Config::key_map == 0) return n - count;
    return newest = blocks.below(newest);
  }

  /// Returns the rows of block `n` that may exist: those that some row of the tile sees. Only the range's
  /// last block can exceed its keys, and with a window or chunks the first; inner_rows() loads all other
  /// blocks whole.
  FA2_DEVICE auto outer_rows(int n) const {
    const int first = n * Config::tile_n;
    if constexpr (Mask<Config>::has_begin) {
      return RowsWithin{blocks.key_begin - first, blocks.key_end - first};
    } else {
      return RowsBefore{blocks.key_end - first};
    }
  }
  FA2_DEVICE auto inner_rows(int n) const {
    if constexpr (Mask<Config>::has_begin) {
      return outer_rows(n);
    } else {
      return EveryRow{};
    }
  }

  /// Starts to load block `n` into a slot, as one cp.async group. The group is empty if there is no such
  /// block.
  template <bool kKeysOnly, class Rows>
  FA2_DEVICE void fetch(int n, int slot_index, Rows rows) {
    if (n >= blocks.begin) {
      if (!looks_ahead) look_up(n);
      load(typename Layout::KeyTile{slot(slot_index)}, Keys::block(k, n, entries), rows);
      if constexpr (!kKeysOnly)
        load_values(typename Layout::ValueTile{slot(slot_index) + Layout::values_start}, n, rows);
    }
    ptx::cp_async_commit_group();
  }

  /// Starts to load the values of block `n`, whose keys have been loaded.
  template <class Rows>
  FA2_DEVICE void load_values(typename Layout::ValueTile tile, int n, Rows rows) {
    if (one_slot && !looks_ahead) look_up(n);
    if constexpr (!Config::values_in_keys) load(tile, Values::block(v, n, entries), rows);
    const int next = blocks.has_map ? blocks.below(n) : n - 1;
    if (looks_ahead && next >= blocks.begin) look_up(next);
  }

  FA2_DEVICE void look_up(int n) { entries.look_up(k, n, Team::thread()); }

  template <class Tile, class Source, class Rows>
  FA2_DEVICE static void load(Tile tile, const Source& source, Rows rows) {
    load_tile<Team::threads, copies_chunks<Config>>(tile, source, rows, Team::thread());
  }
};

}  // namespace fa2
