// The kernel that finds out which blocks of columns the text of a mask shows to a tile of rows (common/key_map.cuh). Rows are queries
// and columns keys, or for gradients of keys the other way round. It evaluates the text for each pair that the problem's mask,
// windows and chunks show, or once a row and block of columns where the mask answers by blocks, until a block is known to be shown in
// part.
//
// Launch: one thread block per eight blocks of columns of a tile, and one warp per block of columns.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// Whether a text shows some pair of a tile and a block of columns, and whether it shows all.
struct Shown {
  bool any = false;
  bool all = true;

  FA2_DEVICE void add(bool is_shown) {
    any |= is_shown;
    all &= is_shown;
  }
  FA2_DEVICE bool is_part() const { return ptx::vote_any(any) && ptx::vote_any(!all); }
};

/// Rows of queries, in the order of a forward's tiles, and columns of keys.
template <class Config>
struct QueryRowsOfMap {
  static constexpr int block_cols = score::Text::mask_block_keys;

  const Mask<Config>& mask;
  const ScorePositions<Config>& positions;

  FA2_DEVICE int rows() const { return mask.rows(); }
  FA2_DEVICE int cols() const { return mask.shape.seqlen_k; }
  FA2_DEVICE bool has(int row) const { return row_map_of<Config>(positions.params).is_filled(row); }
  FA2_DEVICE bool sees(int row, int col) const {
    return col >= mask.visible_begin(row) && col < mask.visible_end(row);
  }
  FA2_DEVICE score::Position position(int row, int col) const { return positions.in_row(row)(col); }
};

/// Rows of keys and columns of queries.
template <class Config>
struct KeyRowsOfMap {
  // Blocks of a mask's answers begin at positions.
  static constexpr int block_cols = Config::query_pieces ? 1 : score::Text::mask_block_queries;

  const Mask<Config>& mask;
  const ScorePositions<Config>& positions;

  FA2_DEVICE int rows() const { return mask.shape.seqlen_k; }
  FA2_DEVICE int cols() const { return mask.shape.seqlen_q; }
  FA2_DEVICE bool has(int) const { return true; }
  FA2_DEVICE bool sees(int row, int col) const {
    return row >= mask.visible_begin(col) && row < mask.visible_end(col);
  }
  FA2_DEVICE score::Position position(int row, int col) const { return positions.in_row(col)(row); }
};

/// Evaluates the text for a tile's rows and a block of columns, by one warp. Each lane has its own rows, so that what follows from a
/// row is computed once.
template <class Config, class Rows>
FA2_DEVICE void add_shown(const Rows& rows, const score::Text& text, int first_row, int first_col,
                          Shown& shown) {
  constexpr int kColsBetweenVotes = 16;
  const int row_end = first_row + Config::tile_m < rows.rows() ? first_row + Config::tile_m : rows.rows();
  const int col_end = first_col + Config::tile_n < rows.cols() ? first_col + Config::tile_n : rows.cols();
  FA2_NO_UNROLL
  for (int row = first_row + ptx::lane_index(); row - ptx::lane_index() < row_end; row += 32) {
    const bool exists = row < row_end && rows.has(row);
    FA2_NO_UNROLL
    for (int first = first_col; first < col_end; first += kColsBetweenVotes) {
      FA2_UNROLL
      for (int i = 0; i < kColsBetweenVotes; ++i) {
        const int col = first + i;
        if (exists && col < col_end && rows.sees(row, col)) shown.add(text.mask(rows.position(row, col)));
      }
      if (shown.is_part()) return;
    }
  }
}

/// Like add_shown() of a mask that answers the same for all columns of its own blocks: evaluates it once for each.
template <class Config, class Rows>
FA2_DEVICE void add_shown_blocks(const Rows& rows, const score::Text& text, int first_row, int first_col,
                                 Shown& shown) {
  const int row_end = first_row + Config::tile_m < rows.rows() ? first_row + Config::tile_m : rows.rows();
  const int col_end = first_col + Config::tile_n < rows.cols() ? first_col + Config::tile_n : rows.cols();
  FA2_NO_UNROLL
  for (int col = first_col; col < col_end && !shown.is_part();) {
    const int next = (col / Rows::block_cols + 1) * Rows::block_cols, end = next < col_end ? next : col_end;
    FA2_NO_UNROLL
    for (int row = first_row + ptx::lane_index(); row < row_end; row += 32) {
      if (!rows.has(row)) continue;
      int seen = col;
      while (seen < end && !rows.sees(row, seen)) ++seen;
      if (seen < end) shown.add(text.mask(rows.position(row, seen)));
    }
    col = end;
  }
}

/// Adds what the text shows of a block of columns to the rows of a tile.
template <class Config, class Rows>
FA2_DEVICE void add_shown_to(const Rows& rows, const score::Text& text, int first_row, int first_col,
                             Shown& shown) {
  if constexpr (Rows::block_cols > 1)
    add_shown_blocks<Config>(rows, text, first_row, first_col, shown);
  else
    add_shown<Config>(rows, text, first_row, first_col, shown);
}

/// Returns what the text shows of a block of columns to a tile.
template <class Config>
FA2_DEVICE Shown shown_to_tile(const AttentionParams& params, const Mask<Config>& mask,
                               const TileCoordinates& at, int block) {
  const score::Text text{params};
  const int first_row = at.q_tile * Config::tile_m, first_col = block * Config::tile_n;
  Shown shown;
  if constexpr (Config::key_map == kMapOfQueries) {
    const ScorePositions<Config> positions{params, mask.shape, at};
    add_shown_to<Config>(QueryRowsOfMap<Config>{mask, positions}, text, first_row, first_col, shown);
  } else {
    // Each query head of the key/value head may see others.
    const int group = params.queries_per_kv;
    for (int i = 0; i < group && !shown.is_part(); ++i) {
      const TileCoordinates of_head{at.q_tile, at.head * group + i, at.batch};
      const ScorePositions<Config> positions{params, mask.shape, of_head};
      add_shown_to<Config>(KeyRowsOfMap<Config>{mask, positions}, text, first_row, first_col, shown);
      if (!score::Text::mask_reads_head) break;
    }
  }
  return {ptx::vote_any(shown.any), !ptx::vote_any(!shown.all)};
}

/// Runs one thread block, which makes a byte of each kind of bits.
template <class Config, class Params>
FA2_DEVICE void make_key_map(const Params& params) {
  constexpr int kBlocks = 8;  // a bit each
  static_assert(Config::warps == kBlocks, "a warp per block of columns");
  const KeyMapParams& map = params.key_map;
  const int bytes = 4 * map.words, number = static_cast<int>(ptx::block_index());
  const int byte = number % bytes, tile = number / bytes % map.tiles, entry = number / bytes / map.tiles;
  const TileCoordinates at{tile, entry % map.heads, entry / map.heads};
  const Mask<Config> mask = mask_of<Config>(params, shape_of<Config>(params, at.batch));
  const int warp = ptx::warp_index();
  const Shown shown = shown_to_tile(params, mask, at, kBlocks * byte + warp);
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
