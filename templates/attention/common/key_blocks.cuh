// Which key blocks some query rows visit (FlashAttention-2, section 3.1.1, "Causal masking").
#pragma once

#include "attention/common/mask.cuh"
#include "ptx/barrier.cuh"

namespace fa2 {

/// Blocks [begin, end) of Config::tile_n keys hold every key that some of the rows sees. They are visited from the
/// last to the first. `Visible` says what a row sees; in the backward rows may be keys, which see queries.
template <class Config, class Visible = Mask<Config>>
struct KeyBlocks {
  static constexpr bool has_begin = Visible::has_begin;
  static constexpr bool has_end = Visible::has_end;

  int begin;
  int end;
  // Blocks [whole_begin, whole_end) are seen whole by every row.
  int whole_begin;
  int whole_end;
  // Keys outside of [key_begin, key_end) are seen by none of the rows.
  int key_begin;
  int key_end;

  FA2_DEVICE bool is_empty() const { return end <= begin; }
  /// Those of them in [first, last).
  FA2_DEVICE KeyBlocks within(int first, int last) const {
    KeyBlocks blocks = *this;
    if (blocks.begin < first) blocks.begin = first;
    if (blocks.end > last) blocks.end = last;
    return blocks;
  }
  /// Whether block `n` lies before the first.
  FA2_DEVICE bool is_below(int n) const { return has_begin && n < begin; }
  FA2_DEVICE bool hides_last_keys(int n) const { return has_end && n >= whole_end; }
  FA2_DEVICE bool hides_first_keys(int n) const { return has_begin && n < whole_begin; }

  /// Sets the scores of block `n` that some of these rows do not see to -inf.
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

/// Of rows that may be others in each lane.
template <class Config, template <class> class Visible>
FA2_DEVICE KeyBlocks<Config, Visible<Config>> key_blocks_of_lane(const Visible<Config>& mask, int first_row,
                                                                 int rows) {
  const int next_row = first_row + rows < mask.rows() ? first_row + rows : mask.rows();
  const int key_end = first_row < next_row ? mask.visible_end(next_row - 1) : 0;
  const int end = (key_end + Config::tile_n - 1) / Config::tile_n;
  const int whole_end = mask.visible_end(first_row) / Config::tile_n;
  if constexpr (!Visible<Config>::has_begin) return {0, end, 0, whole_end, 0, key_end};
  const int key_begin = mask.visible_begin(first_row);
  const int whole_begin = (mask.visible_begin(next_row - 1) + Config::tile_n - 1) / Config::tile_n;
  return {key_begin / Config::tile_n, end, whole_begin, whole_end, key_begin, key_end};
}

template <class Config, template <class> class Visible>
FA2_DEVICE KeyBlocks<Config, Visible<Config>> key_blocks(const Visible<Config>& mask, int first_row,
                                                         int rows) {
  const KeyBlocks<Config, Visible<Config>> blocks = key_blocks_of_lane(mask, first_row, rows);
  if constexpr (!Visible<Config>::has_begin) return blocks;
  // The same in every lane, and known to be: loops over blocks stay in uniform registers.
  return {ptx::shfl_idx(blocks.begin, 0),
          ptx::shfl_idx(blocks.end, 0),
          ptx::shfl_idx(blocks.whole_begin, 0),
          ptx::shfl_idx(blocks.whole_end, 0),
          blocks.key_begin,
          blocks.key_end};
}

}  // namespace fa2
