// The kernel that finds out which KV blocks the text of a mask shows to a tile of queries (common/key_map.cuh). It evaluates the text
// for each pair of a query and a key that the problem's mask, windows and chunks show, until a block is known to be shown in part.
//
// Launch: one thread block per eight KV blocks of a tile, and one warp per KV block.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// Whether a text shows some pair of a tile and a KV block, and whether it shows all.
struct Shown {
  bool any = false;
  bool all = true;

  FA2_DEVICE bool is_part() const { return ptx::vote_any(any) && ptx::vote_any(!all); }
};

/// Evaluates the text for one KV block, by one warp. Each lane sees its own keys.
template <class Config>
FA2_DEVICE Shown shown_to_tile(const AttentionParams& params, const Mask<Config>& mask,
                               const TileCoordinates& at, int block) {
  constexpr int kRowsBetweenVotes = 8;
  const ScorePositions<Config> positions{params, mask.shape, at};
  const score::Text text{params};
  const int first_row = at.q_tile * Config::tile_m, first_key = block * Config::tile_n;
  Shown shown;
  FA2_NO_UNROLL
  for (int row = first_row; row < first_row + Config::tile_m && row < mask.rows(); ++row) {
    if (!row_map_of<Config>(params).is_filled(row)) continue;
    const auto position = positions.in_row(row);
    const int begin = mask.visible_begin(row), end = mask.visible_end(row);
    FA2_UNROLL
    for (int col = 0; col < Config::tile_n; col += 32) {
      const int key = first_key + col + ptx::lane_index();
      if (col + ptx::lane_index() >= Config::tile_n || key < begin || key >= end) continue;
      const bool is_shown = text.mask(position(key));
      shown.any |= is_shown;
      shown.all &= is_shown;
    }
    if (row % kRowsBetweenVotes == kRowsBetweenVotes - 1 && shown.is_part()) break;
  }
  return {ptx::vote_any(shown.any), !ptx::vote_any(!shown.all)};
}

/// Runs one thread block, which makes a byte of each kind of bits.
template <class Config, class Params>
FA2_DEVICE void make_key_map(const Params& params) {
  constexpr int kBlocks = 8;  // a bit each
  static_assert(Config::warps == kBlocks, "a warp per KV block");
  const KeyMapParams& map = params.key_map;
  const int bytes = 4 * map.words, number = static_cast<int>(ptx::block_index());
  const int byte = number % bytes, tile = number / bytes % map.tiles, entry = number / bytes / map.tiles;
  const TileCoordinates at{tile, entry % map.heads, entry / map.heads};
  const Mask<Config> mask = mask_of<Config>(params, shape_of<Config>(params, at.batch));
  const KeyBlocks<Config> blocks = key_blocks_of_lane(mask, tile * Config::tile_m, Config::tile_m);
  const int warp = ptx::warp_index(), block = kBlocks * byte + warp;
  Shown shown{false, false};
  if (block >= blocks.begin && block < blocks.end) shown = shown_to_tile(params, mask, at, block);
  const SharedAddress shared = ptx::dynamic_shared();
  if (ptx::lane_index() == 0)
    ptx::st_shared_u32(shared + 4 * static_cast<u32>(warp), (shown.any ? 1 : 0) | (shown.all ? 2 : 0));
  ptx::bar_sync();
  if (ptx::thread_index() != 0) return;
  u32 seen = 0, whole = 0;
  FA2_UNROLL
  for (int i = 0; i < kBlocks; ++i) {
    const u32 bits = ptx::ld_shared_u32(shared + 4 * static_cast<u32>(i));
    seen |= (bits & 1) << i;
    whole |= (bits >> 1) << i;
  }
  const KeyMapWords words = KeyMapWords::of(map, tile, at.head, at.batch);
  ptx::st_global_u8(reinterpret_cast<unsigned char*>(const_cast<int*>(words.seen)) + byte, seen);
  ptx::st_global_u8(reinterpret_cast<unsigned char*>(const_cast<int*>(words.whole)) + byte, whole);
}

}  // namespace fa2
