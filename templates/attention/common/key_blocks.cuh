// The range of KV blocks that a tile's rows visit (FlashAttention-2, section 3.1.1, "Causal masking").
#pragma once

#include "attention/common/key_map.cuh"
#include "attention/common/mask.cuh"
#include "ptx/barrier.cuh"

namespace fa2 {

/// KV blocks [begin, end) of Config::tile_n keys, which hold every key that some row sees. A kernel visits
/// them from the last to the first. `Visible` gives each row's range of keys. In the backward, rows may be
/// keys that see queries.
template <class Config, class Visible = Mask<Config>>
struct KeyBlocks : KeyMapRow<Config> {
  using Map = KeyMapRow<Config>;
  /// Whether below() skips blocks. Loops of other kernels count down without it, which keeps their code.
  static constexpr bool has_map = Config::key_map != 0;
  static constexpr bool has_begin = Visible::has_begin;
  static constexpr bool has_end = Visible::has_end;

  int begin;
  int end;
  // Every row sees all keys of the blocks [whole_begin, whole_end), but those of missing pages.
  int whole_begin;
  int whole_end;
  // No row sees a key outside [key_begin, key_end).
  int key_begin;
  int key_end;

  /// Returns the block to visit after block `n`; begin - 1 after the last.
  FA2_DEVICE int below(int n) const { return Map::below(n, begin); }
  /// Returns how many blocks are visited.
  FA2_DEVICE int count() const { return Map::count(begin, end); }

  FA2_DEVICE bool is_empty() const { return end <= begin; }
  /// Returns the blocks of this range that lie in [first, last).
  FA2_DEVICE KeyBlocks within(int first, int last) const {
    KeyBlocks blocks = *this;
    if (blocks.begin < first) blocks.begin = first;
    if (blocks.end > last) blocks.end = last;
    return blocks;
  }
  /// Returns whether block `n` lies before the first.
  FA2_DEVICE bool is_below(int n) const { return has_begin && n < begin; }
  FA2_DEVICE bool hides_last_keys(int n) const {
    return (has_end && n >= whole_end) || Config::missing_pages;
  }
  FA2_DEVICE bool hides_first_keys(int n) const { return has_begin && n < whole_begin; }

  /// Sets a score of block `n` to -inf if its row does not see its key.
  template <int kM, int kN>
  FA2_DEVICE void hide_keys(const Visible& mask, AccumulatorTile<kM, kN>& scores, int first_row,
                            int n) const {
    if (hides_last_keys(n)) mask.hide_last(scores, first_row, n * Config::tile_n);
    hide_first_keys(mask, scores, first_row, n);
  }
  template <int kM, int kN>
  FA2_DEVICE void hide_first_keys(const Visible& mask, AccumulatorTile<kM, kN>& scores, int first_row,
                                  int n) const {
    if (hides_first_keys(n)) mask.hide_first(scores, first_row, n * Config::tile_n);
  }
};

/// Returns the KV blocks of `rows` rows from `first_row` on. The rows may differ between lanes.
template <class Config, template <class> class Visible>
FA2_DEVICE KeyBlocks<Config, Visible<Config>> key_blocks_of_lane(const Visible<Config>& mask, int first_row,
                                                                 int rows) {
  const int next_row = first_row + rows < mask.rows() ? first_row + rows : mask.rows();
  const int key_end = first_row < next_row ? mask.visible_end(next_row - 1) : 0;
  const int end = (key_end + Config::tile_n - 1) / Config::tile_n;
  const int whole_end = mask.visible_end(first_row) / Config::tile_n;
  if constexpr (!Visible<Config>::has_begin) return {{}, 0, end, 0, whole_end, 0, key_end};
  const int key_begin = mask.visible_begin(first_row);
  const int whole_begin = (mask.visible_begin(next_row - 1) + Config::tile_n - 1) / Config::tile_n;
  return {{}, key_begin / Config::tile_n, end, whole_begin, whole_end, key_begin, key_end};
}

/// Like key_blocks_of_lane(), for rows that are equal in all lanes.
template <class Config, template <class> class Visible>
FA2_DEVICE KeyBlocks<Config, Visible<Config>> key_blocks(const Visible<Config>& mask, int first_row,
                                                         int rows) {
  const KeyBlocks<Config, Visible<Config>> blocks = key_blocks_of_lane(mask, first_row, rows);
  if constexpr (!Visible<Config>::has_begin) return blocks;
  // The shuffles tell the compiler that all lanes agree, so loops over blocks stay in uniform registers.
  return {{},
          ptx::shfl_idx(blocks.begin, 0),
          ptx::shfl_idx(blocks.end, 0),
          ptx::shfl_idx(blocks.whole_begin, 0),
          ptx::shfl_idx(blocks.whole_end, 0),
          blocks.key_begin,
          blocks.key_end};
}

/// Gives the blocks the tile's part of the map. They end with the last one to visit.
template <class Config, class Visible>
FA2_DEVICE void set_map(KeyBlocks<Config, Visible>& blocks, const AttentionParams& params,
                        const TileCoordinates& at) {
  if constexpr (Config::key_map != 0) {
    static_cast<KeyMapRow<Config>&>(blocks) = KeyMapRow<Config>::of(params, at);
    blocks.end = blocks.below(blocks.end) + 1;
  }
}

}  // namespace fa2
