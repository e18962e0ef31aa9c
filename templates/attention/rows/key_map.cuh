// The kernel that finds out which blocks of columns the text of a mask shows to a tile of rows (common/key_map.cuh). Rows are queries
// and columns keys, or for gradients of keys the other way round. It evaluates the text once for all
// positions of a block, with ranges in place of integers, if the text can have them. If that does not tell, it evaluates each pair that
// the problem's mask, windows and chunks show, or one for a row and block of columns where the mask answers by blocks, until a block is
// known to be shown in part.
//
// Launch: one thread block per 32 blocks of columns of a tile, if the text has ranges, and one warp per four of them; otherwise one per
// eight, and one warp per block of columns.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/rows/range_text.cuh"
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

/// A tile's rows and a block of columns: [row_begin, row_end) and [col_begin, col_end), all of which exist, unless one is empty.
struct MapBlock {
  int row_begin, row_end, col_begin, col_end;
};

/// Returns the positions from `first` to `last`, of all heads that share a tile.
template <class Config>
FA2_DEVICE score::RangePosition range_of(const ScorePositions<Config>& positions,
                                         const score::Position& first, const score::Position& last) {
  const int heads = Config::packs_heads ? positions.params.packing.heads : 1,
            head = positions.at.head * heads;
  return {
      first.batch, {head, head + heads - 1}, {first.query, last.query}, {first.key, last.key}, first.queries,
      first.keys};
}

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

/// Calls evaluate(row, column) for a pair of each row and columns [begin, end) that the problem's mask, windows and chunks show, the
/// first one, where there is one. Each lane has its own rows.
template <class Rows, class Evaluate>
FA2_DEVICE void each_first_pair(const Rows& rows, const MapBlock& block, int begin, int end,
                                const Evaluate& evaluate) {
  FA2_NO_UNROLL
  for (int row = block.row_begin + ptx::lane_index(); row < block.row_end; row += 32) {
    if (!rows.has(row)) continue;
    int col = begin;
    while (col < end && !rows.sees(row, col)) ++col;
    if (col < end) evaluate(row, col);
  }
}

/// What a text shows of a block of columns, evaluated with ranges.
enum class RangeAnswer : int { unknown, hides, shows };

template <class Rows>
FA2_DEVICE RangeAnswer answer_of_range(const Rows& rows, const score::Text& text, const MapBlock& block) {
  const score::Range range = score::RangeText{text.captures}.mask(
      range_of(rows.positions, rows.position(block.row_begin, block.col_begin),
               rows.position(block.row_end - 1, block.col_end - 1)));
  return range.is_zero() ? RangeAnswer::hides : range.has_zero() ? RangeAnswer::unknown : RangeAnswer::shows;
}

/// Evaluates the text of each pair, by one warp, so that what follows from a row is computed once.
template <class Rows>
FA2_DEVICE void add_shown_pairs(const Rows& rows, const score::Text& text, const MapBlock& block,
                                Shown& shown) {
  constexpr int kColsBetweenVotes = 16;
  FA2_NO_UNROLL
  for (int row = block.row_begin + ptx::lane_index(); row - ptx::lane_index() < block.row_end; row += 32) {
    const bool exists = row < block.row_end && rows.has(row);
    FA2_NO_UNROLL
    for (int first = block.col_begin; first < block.col_end; first += kColsBetweenVotes) {
      FA2_UNROLL
      for (int i = 0; i < kColsBetweenVotes; ++i) {
        const int col = first + i;
        if (exists && col < block.col_end && rows.sees(row, col))
          shown.add(text.mask(rows.position(row, col)));
      }
      if (shown.is_part()) return;
    }
  }
}

/// Evaluates the text of a mask that answers the same for all columns of its own blocks: once for each.
template <class Rows>
FA2_DEVICE void add_shown_blocks(const Rows& rows, const score::Text& text, const MapBlock& block,
                                 Shown& shown) {
  FA2_NO_UNROLL
  for (int col = block.col_begin; col < block.col_end && !shown.is_part();) {
    const int next = (col / Rows::block_cols + 1) * Rows::block_cols;
    const int end = next < block.col_end ? next : block.col_end;
    each_first_pair(rows, block, col, end,
                    [&](int row, int seen) { shown.add(text.mask(rows.position(row, seen))); });
    col = end;
  }
}

/// Columns of blocks that a warp maps.
constexpr int kBlocksOfWarp = score::RangeText::exists ? 32 / score::kLanesOfRange : 1;

/// What the text shows of a warp's blocks of columns: a bit each.
struct MapBits {
  u32 seen = 0;
  u32 whole = (1u << kBlocksOfWarp) - 1;

  FA2_DEVICE bool is_part(int block) const { return (seen & ~whole) >> block & 1; }
  FA2_DEVICE void add_hidden(int block) { whole &= ~(1u << block); }
  FA2_DEVICE void add(int block, const Shown& shown) {
    if (ptx::vote_any(shown.any)) seen |= 1u << block;
    if (ptx::vote_any(!shown.all)) add_hidden(block);
  }
};

/// Adds what the text shows of a warp's blocks to the rows of a tile.
template <class Config, class Rows>
FA2_DEVICE void add_shown(const Rows& rows, const score::Text& text, int first_row, int first_block,
                          MapBits& bits) {
  const auto block_of = [&](int i) {
    const int row_end = first_row + Config::tile_m, first_col = (first_block + i) * Config::tile_n;
    const int col_end = first_col + Config::tile_n;
    return MapBlock{first_row, row_end < rows.rows() ? row_end : rows.rows(), first_col,
                    col_end < rows.cols() ? col_end : rows.cols()};
  };
  auto answer = RangeAnswer::unknown;
  if constexpr (score::RangeText::exists)
    answer = answer_of_range(rows, text, block_of(ptx::lane_index() / score::kLanesOfRange));
  FA2_NO_UNROLL
  for (int i = 0; i < kBlocksOfWarp; ++i) {
    const auto of_block = RangeAnswer(ptx::shfl_idx(static_cast<int>(answer), i * score::kLanesOfRange % 32));
    if (of_block == RangeAnswer::hides) bits.add_hidden(i);
    if (of_block == RangeAnswer::hides || bits.is_part(i)) continue;
    const MapBlock block = block_of(i);
    Shown shown;
    if (of_block == RangeAnswer::shows)
      each_first_pair(rows, block, block.col_begin, block.col_end, [&](int, int) { shown.add(true); });
    else if constexpr (Rows::block_cols > 1)
      add_shown_blocks(rows, text, block, shown);
    else
      add_shown_pairs(rows, text, block, shown);
    bits.add(i, shown);
  }
}

/// Returns what the text shows of a warp's blocks of columns to a tile.
template <class Config>
FA2_DEVICE MapBits shown_to_tile(const AttentionParams& params, const Mask<Config>& mask,
                                 const TileCoordinates& at, int first_block) {
  const score::Text text{params};
  const int first_row = at.q_tile * Config::tile_m;
  MapBits bits;
  if constexpr (Config::key_map == kMapOfQueries) {
    const ScorePositions<Config> positions{params, mask.shape, at};
    add_shown<Config>(QueryRowsOfMap<Config>{mask, positions}, text, first_row, first_block, bits);
  } else {
    // Each query head of the key/value head may see others.
    const int group = score::Text::mask_reads_head ? params.queries_per_kv : 1;
    for (int i = 0; i < group; ++i) {
      const TileCoordinates of_head{at.q_tile, at.head * params.queries_per_kv + i, at.batch};
      const ScorePositions<Config> positions{params, mask.shape, of_head};
      add_shown<Config>(KeyRowsOfMap<Config>{mask, positions}, text, first_row, first_block, bits);
    }
  }
  return bits;
}

/// Runs one thread block, which makes a byte of each kind of bits, or a word if its warps have four bits each.
template <class Config, class Params>
FA2_DEVICE void make_key_map(const Params& params) {
  constexpr int kBlocks = Config::warps * kBlocksOfWarp;  // a bit each
  static_assert(kBlocks == 8 || kBlocks == 32, "a byte or a word");
  const KeyMapParams& map = params.key_map;
  const int parts = 32 / kBlocks * map.words, number = static_cast<int>(ptx::block_index());
  const int part = number % parts, tile = number / parts % map.tiles, entry = number / parts / map.tiles;
  const TileCoordinates at{tile, entry % map.heads, entry / map.heads};
  const Mask<Config> mask = mask_of<Config>(params, shape_of<Config>(params, at.batch));
  const int warp = ptx::warp_index();
  const MapBits bits = shown_to_tile(params, mask, at, kBlocks * part + kBlocksOfWarp * warp);
  const SharedAddress shared = ptx::dynamic_shared();
  if (ptx::lane_index() == 0)
    ptx::st_shared_u32(shared + 4 * static_cast<u32>(warp), bits.seen | bits.whole << 16);
  ptx::bar_sync();
  if (ptx::thread_index() != 0) return;
  u32 seen = 0, whole = 0;
  FA2_UNROLL
  for (int i = 0; i < Config::warps; ++i) {
    const u32 both = ptx::ld_shared_u32(shared + 4 * static_cast<u32>(i));
    seen |= (both & 0xffff) << (i * kBlocksOfWarp);
    whole |= (both >> 16) << (i * kBlocksOfWarp);
  }
  const KeyMapWords words = KeyMapWords::of(map, tile, at.head, at.batch);
  const auto store = [&](const int* row, u32 value) {
    auto* const to = reinterpret_cast<unsigned char*>(const_cast<int*>(row)) + kBlocks / 8 * part;
    kBlocks == 8 ? ptx::st_global_u8(to, value) : ptx::st_global_u32(to, value);
  };
  store(words.seen, seen);
  store(words.whole, whole);
}

}  // namespace fa2
