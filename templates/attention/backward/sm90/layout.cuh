// Shared memory of the fused backward kernel on wgmma.
#pragma once

#include "attention/common/staged_scores.cuh"
#include "tile/swizzled_tile.cuh"

namespace fa2 {

/// How many warps beside the producer add dS to the gradient of the bias. Those of bulk_sums have other work.
template <class Config, bool kStaged = Config::score_tiles != 0>
struct BiasAdders {
  static constexpr int count = 0;
};
template <class Config>
struct BiasAdders<Config, true> {
  static constexpr int count = !Config::adds_bias_gradient ? 0 : Config::bulk_sums ? 1 : 3;
};

/// K and V lie in tiles of 64 keys, one per warpgroup unless gradients are split. Then come a ring of Q and a
/// ring of dO, whose slots carry LSE and delta per row. Last come slots for dS, which all warpgroups read.
/// Ping-pong scheduling needs a third slot, because one warpgroup writes while the other reads the two
/// before. The blocks of a cluster have room for what the other one sends: dS, and half of K's columns. With
/// bulk_sums each warpgroup has room for its dQ of an iteration. With score_tiles each slot of Q has a StagedScores per warpgroup.
template <class Config>
struct BackwardLayoutSm90 {
  static constexpr int warpgroups = Config::warps / 4;
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  static constexpr int blocks = Config::cluster_blocks;  ///< that share a key tile
  static constexpr int own_keys = Config::tile_m / blocks;
  static constexpr int key_tiles = own_keys / 64;
  using KeyTile = SwizzledTile<64, padded_dim>;
  using ValueTile = SwizzledTile<64, padded_dim_v>;
  using QueryTile = SwizzledTile<Config::tile_n, padded_dim>;
  using OutputTile = SwizzledTile<Config::tile_n, padded_dim_v>;
  using ScoreTile = SwizzledTile<Config::tile_n, 64>;  ///< one row per query
  static constexpr int half_key_bytes = 64 * 128 * 2;  ///< half of 256 columns

  /// Rounds up to 1024 bytes, the period of the widest swizzle.
  static constexpr int aligned(int bytes) { return (bytes + 1023) / 1024 * 1024; }
  /// Whether the warpgroups compute dQ of alternate iterations, each all of it.
  static constexpr bool alternates = Config::pingpong == 2;
  static constexpr int bias_adders = BiasAdders<Config>::count;
  static constexpr int score_readers =
      (alternates ? 4 : Config::warps) + bias_adders;  ///< warps that read the dS of a slot
  static constexpr int score_places = Config::pingpong > 0 ? 3 : 2;
  static constexpr int value_start = key_tiles * KeyTile::bytes;
  static constexpr int query_start = value_start + key_tiles * ValueTile::bytes;
  static constexpr int output_start = query_start + Config::stages * aligned(QueryTile::bytes);
  static constexpr int staged_bytes = StagedBytes<Config>::of_tile;
  static constexpr int staged_start = output_start + Config::output_stages * aligned(OutputTile::bytes);
  static constexpr int score_start = staged_start + Config::stages * key_tiles * staged_bytes;
  static constexpr int weights_start = score_start + score_places * key_tiles * ScoreTile::bytes;
  static constexpr int weights_bytes = Config::splits_gradients ? ScoreTile::bytes : 0;
  static constexpr int received_start = weights_start + 2 * weights_bytes;
  static constexpr int received_bytes = blocks > 1 ? half_key_bytes + score_places* ScoreTile::bytes : 0;
  static constexpr int sums_start = received_start + received_bytes;
  static constexpr int sum_parts = alternates ? 1 : warpgroups;  ///< warpgroups that share an iteration's dQ
  static constexpr int sum_bytes = Config::bulk_sums ? 4 * Config::tile_n * padded_dim / sum_parts : 0;
  static constexpr int statistics_start = sums_start + warpgroups * sum_bytes;
  static constexpr int mbarrier_start =
      statistics_start + (Config::stages + Config::output_stages) * 4 * Config::tile_n;
  static constexpr int mbarriers = 2 * (Config::stages + Config::output_stages) + 2 * score_places + 2 +
                                   (Config::splits_gradients ? 4 : 0) +
                                   (blocks > 1 ? 3 * score_places + 1 : 0);
  static constexpr int bytes = mbarrier_start + 8 * mbarriers;
  static_assert(bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");

  SharedAddress base;

  FA2_DEVICE KeyTile keys(int tile) const { return {at(tile * KeyTile::bytes)}; }
  FA2_DEVICE ValueTile values(int tile) const { return {at(value_start + tile * ValueTile::bytes)}; }
  FA2_DEVICE QueryTile queries(int slot) const {
    return {at(query_start + slot * aligned(QueryTile::bytes))};
  }
  FA2_DEVICE OutputTile d_output(int slot) const {
    return {at(output_start + slot * aligned(OutputTile::bytes))};
  }
  /// Returns where the StagedScores of one key tile lie.
  FA2_DEVICE SharedAddress staged(int slot, int tile) const {
    return at(staged_start + (slot * key_tiles + tile) * staged_bytes);
  }
  /// Returns the dS of one key tile.
  FA2_DEVICE ScoreTile scores(int place, int tile) const {
    return {at(score_start + (place * key_tiles + tile) * ScoreTile::bytes)};
  }
  /// Returns the factors of dP in dS, in register order; only if gradients are split.
  FA2_DEVICE SharedAddress weights(int place) const { return at(weights_start + place * weights_bytes); }
  /// The other block's K. Only this block's half of the columns is there; `block`: its rank.
  FA2_DEVICE KeyTile received_keys(int block) const { return {at(received_start - block * half_key_bytes)}; }
  /// The other block's dS.
  FA2_DEVICE ScoreTile received_scores(int place) const {
    return {at(received_start + half_key_bytes + place * ScoreTile::bytes)};
  }
  /// Returns where a warpgroup's dQ lies until it is added, in register order.
  FA2_DEVICE SharedAddress sums(int warpgroup) const { return at(sums_start + warpgroup * sum_bytes); }
  FA2_DEVICE SharedAddress offsets(int slot) const {
    return at(statistics_start + slot * 4 * Config::tile_n);
  }
  FA2_DEVICE SharedAddress deltas(int slot) const { return offsets(Config::stages + slot); }

  /// mbarriers: *_full completes when the slot is loaded, *_empty when it may be loaded again.
  FA2_DEVICE SharedAddress queries_full(int slot) const { return mbarrier(slot); }
  FA2_DEVICE SharedAddress queries_empty(int slot) const { return mbarrier(Config::stages + slot); }
  FA2_DEVICE SharedAddress d_output_full(int slot) const { return mbarrier(2 * Config::stages + slot); }
  FA2_DEVICE SharedAddress d_output_empty(int slot) const {
    return d_output_full(Config::output_stages + slot);
  }
  FA2_DEVICE SharedAddress scores_full(int place) const {
    return d_output_full(2 * Config::output_stages + place);
  }
  FA2_DEVICE SharedAddress scores_empty(int place) const { return scores_full(score_places + place); }
  FA2_DEVICE SharedAddress keys_full() const { return scores_full(2 * score_places); }
  FA2_DEVICE SharedAddress values_full() const { return scores_full(2 * score_places + 1); }
  FA2_DEVICE SharedAddress weights_full(int place) const { return scores_full(2 * score_places + 2 + place); }
  FA2_DEVICE SharedAddress weights_empty(int place) const { return weights_full(2 + place); }
  FA2_DEVICE SharedAddress received_keys_full() const { return weights_full(4); }
  FA2_DEVICE SharedAddress received_full(int place) const { return weights_full(5 + place); }
  FA2_DEVICE SharedAddress received_empty(int place) const { return received_full(score_places + place); }
  /// Completes when the other block has used what was sent from the place.
  FA2_DEVICE SharedAddress may_send(int place) const { return received_full(2 * score_places + place); }

 private:
  FA2_DEVICE SharedAddress at(int offset) const { return base + static_cast<u32>(offset); }
  FA2_DEVICE SharedAddress mbarrier(int index) const { return at(mbarrier_start + 8 * index); }
};

}  // namespace fa2
