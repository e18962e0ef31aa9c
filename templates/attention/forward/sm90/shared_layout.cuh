// Shared memory of the sm90 forward kernel: tiles and mbarriers.
#pragma once

#include "attention/common/staged_scores.cuh"
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
  /// Rounds up to 1024 bytes, the period of the widest swizzle.
  static constexpr int aligned(int bytes) { return (bytes + 1023) / 1024 * 1024; }
  /// A warpgroup's queries, later replaced by its output unless that passes through the ring.
  static constexpr int query_bytes = aligned(larger(QueryTile::bytes, OutputTile::bytes));
  /// Keys and values share one ring.
  static constexpr int slot_bytes = aligned(larger(KeyTile::bytes, ValueTile::bytes));
  /// Whether outputs pass through slots of the ring, one for each warpgroup. Then the next tile's queries load while
  /// this one ends, though there is only one buffer. Splits have few queries, and keep the ring for keys. Wide heads have few
  /// slots. Float32 leaves from registers.
  static constexpr bool stages_output_in_ring =
      !Config::float32_out && Config::q_buffers == 1 && Config::schedule != kSplitKeys &&
      Config::column_warps == 1 && OutputTile::bytes <= slot_bytes && Config::stages > warpgroups;

  static constexpr int ring_start = Config::q_buffers * warpgroups * query_bytes;
  /// The ring of StagedScores, one of each warpgroup in a slot.
  static constexpr int staged_slots = Config::score_tiles != 0 ? 2 : 0;
  static constexpr int staged_bytes = StagedBytes<Config>::of_tile;
  static constexpr int staged_start = ring_start + Config::stages * slot_bytes;
  static constexpr int mbarrier_start = staged_start + staged_slots * warpgroups * staged_bytes;
  /// Bytes of an announced tile: its coordinates; with varlen its sequence's rows; under split KV its split.
  static constexpr bool splits_keys = Config::schedule == kSplitKeys;
  static constexpr int tile_bytes = 16 + (Config::varlen ? 16 : 0) + (splits_keys ? 16 : 0);
  /// Two mbarriers per slot and per query buffer, and four for announced tiles; two announced tiles; one
  /// mbarrier for edges; one word per warpgroup; two mbarriers per slot of staged tiles.
  static constexpr int staged_mbarrier_start =
      mbarrier_start + 16 * (Config::stages + Config::q_buffers + 2) + 2 * tile_bytes +
      (Config::varlen ? 8 : 0) + (splits_keys ? 16 : 0);
  static constexpr int bytes = staged_mbarrier_start + 16 * staged_slots;
  static_assert(bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");

  SharedAddress base;

  FA2_DEVICE QueryTile queries(int buffer, int warpgroup) const {
    return {base + static_cast<u32>((buffer * warpgroups + warpgroup) * query_bytes)};
  }
  FA2_DEVICE KeyTile keys(int slot) const {
    return {base + static_cast<u32>(ring_start + slot * slot_bytes)};
  }
  FA2_DEVICE ValueTile values(int slot) const { return {keys(slot).base}; }
  FA2_DEVICE OutputTile output(int slot) const { return {keys(slot).base}; }
  /// Returns where a warpgroup's StagedScores lie.
  FA2_DEVICE SharedAddress staged(int slot, int warpgroup) const {
    return base + static_cast<u32>(staged_start + (slot * warpgroups + warpgroup) * staged_bytes);
  }

  /// mbarriers: slot_full completes when the slot is loaded, slot_empty when it may be loaded again.
  FA2_DEVICE SharedAddress slot_full(int slot) const { return mbarrier(slot); }
  FA2_DEVICE SharedAddress slot_empty(int slot) const { return mbarrier(Config::stages + slot); }
  FA2_DEVICE SharedAddress queries_full(int buffer) const { return mbarrier(2 * Config::stages + buffer); }
  FA2_DEVICE SharedAddress queries_empty(int buffer) const {
    return mbarrier(2 * Config::stages + Config::q_buffers + buffer);
  }
  /// The producer announces tiles to the consumers in two slots, used in turn.
  FA2_DEVICE SharedAddress tile_full(int turn) const {
    return mbarrier(2 * (Config::stages + Config::q_buffers) + turn);
  }
  FA2_DEVICE SharedAddress tile_empty(int turn) const { return tile_full(turn) + 16; }
  FA2_DEVICE SharedAddress tile(int turn) const {
    return tile_full(0) + 32 + static_cast<u32>(tile_bytes * turn);
  }
  /// mbarrier for a V tile that the producer clears partly before it hands it on; only with varlen.
  FA2_DEVICE SharedAddress edge_full() const { return tile(2); }
  /// A word per warpgroup: whether all splits of the tile are stored. Only with kSplitKeys.
  FA2_DEVICE SharedAddress all_are_stored(int warpgroup) const {
    return tile(2) + static_cast<u32>((Config::varlen ? 8 : 0) + 4 * warpgroup);
  }

  FA2_DEVICE SharedAddress staged_full(int slot) const {
    return base + static_cast<u32>(staged_mbarrier_start + 8 * slot);
  }
  FA2_DEVICE SharedAddress staged_empty(int slot) const { return staged_full(staged_slots + slot); }

 private:
  FA2_DEVICE SharedAddress mbarrier(int index) const {
    return base + static_cast<u32>(mbarrier_start + 8 * index);
  }
};

}  // namespace fa2
