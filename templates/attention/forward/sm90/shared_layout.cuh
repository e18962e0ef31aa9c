// Where a block's tiles and mbarriers lie in shared memory.
#pragma once

#include "attention/common/tile_schedule.cuh"
#include "tile/swizzled_tile.cuh"

namespace fa2 {

template <class Config>
struct SharedLayoutSm90 {
  static constexpr int warpgroups = Config::warps / 4;
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  using QueryTile = SwizzledTile<64, padded_dim>;
  using OutputTile = SwizzledTile<64, padded_dim_v>;
  using KeyTile = SwizzledTile<Config::tile_n, padded_dim>;
  using ValueTile = SwizzledTile<Config::tile_n, padded_dim_v>;

  static constexpr int larger(int a, int b) { return a > b ? a : b; }
  /// The pattern of the widest swizzle repeats every 1024 bytes.
  static constexpr int aligned(int bytes) { return (bytes + 1023) / 1024 * 1024; }
  /// A warpgroup's queries, and its output in their place.
  static constexpr int query_bytes = aligned(larger(QueryTile::bytes, OutputTile::bytes));
  /// Keys and values share one ring.
  static constexpr int slot_bytes = aligned(larger(KeyTile::bytes, ValueTile::bytes));

  static constexpr int ring_start = Config::q_buffers * warpgroups * query_bytes;
  static constexpr int mbarrier_start = ring_start + Config::stages * slot_bytes;
  /// What a tile is announced by: its coordinates, where only tables say them its sequence's rows, and its part of the keys.
  static constexpr bool splits_keys = Config::schedule == kSplitKeys;
  static constexpr int tile_bytes = 16 + (Config::varlen ? 16 : 0) + (splits_keys ? 16 : 0);
  /// Two mbarriers a slot, two a buffer of queries, four for the schedule, and its two tiles; one for an edge; a word a warpgroup.
  static constexpr int bytes = mbarrier_start + 16 * (Config::stages + Config::q_buffers + 2) +
                               2 * tile_bytes + (Config::varlen ? 8 : 0) + (splits_keys ? 16 : 0);
  static_assert(bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");

  SharedAddress base;

  FA2_DEVICE QueryTile queries(int buffer, int warpgroup) const {
    return {base + static_cast<u32>((buffer * warpgroups + warpgroup) * query_bytes)};
  }
  FA2_DEVICE OutputTile output(int buffer, int warpgroup) const { return {queries(buffer, warpgroup).base}; }
  FA2_DEVICE KeyTile keys(int slot) const {
    return {base + static_cast<u32>(ring_start + slot * slot_bytes)};
  }
  FA2_DEVICE ValueTile values(int slot) const { return {keys(slot).base}; }

  /// Complete when a slot is loaded, and when it may be loaded again.
  FA2_DEVICE SharedAddress slot_full(int slot) const { return mbarrier(slot); }
  FA2_DEVICE SharedAddress slot_empty(int slot) const { return mbarrier(Config::stages + slot); }
  FA2_DEVICE SharedAddress queries_full(int buffer) const { return mbarrier(2 * Config::stages + buffer); }
  FA2_DEVICE SharedAddress queries_empty(int buffer) const {
    return mbarrier(2 * Config::stages + Config::q_buffers + buffer);
  }
  /// Of the two places that carry the next tile from the producer to the consumers in turn.
  FA2_DEVICE SharedAddress tile_full(int turn) const {
    return mbarrier(2 * (Config::stages + Config::q_buffers) + turn);
  }
  FA2_DEVICE SharedAddress tile_empty(int turn) const { return tile_full(turn) + 16; }
  FA2_DEVICE SharedAddress tile(int turn) const {
    return tile_full(0) + 32 + static_cast<u32>(tile_bytes * turn);
  }
  /// Of values that are not handed on as they are loaded; only with varlen.
  FA2_DEVICE SharedAddress edge_full() const { return tile(2); }
  /// How many parts of a tile had ended before a warpgroup's; only with kSplitKeys.
  FA2_DEVICE SharedAddress parts_before(int warpgroup) const {
    return tile(2) + static_cast<u32>((Config::varlen ? 8 : 0) + 4 * warpgroup);
  }

 private:
  FA2_DEVICE SharedAddress mbarrier(int index) const {
    return base + static_cast<u32>(mbarrier_start + 8 * index);
  }
};

}  // namespace fa2
