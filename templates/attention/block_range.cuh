// Which key blocks a query tile visits (FlashAttention-2, section 3.1.1, "Causal masking").
#pragma once

#include "attention/mask.cuh"

namespace fa2 {

/// Blocks [0, end) of Config::tile_n keys hold every key that some row of the tile sees; those in [0,
/// first_masked) are seen whole by every row and need no mask.
struct BlockRange {
  int end;
  int first_masked;
  int key_end;  ///< keys at and beyond this one are seen by no row of the tile
};

template <class Config>
FA2_DEVICE BlockRange block_range(const Mask<Config>& mask, int q_tile) {
  const int first_row = q_tile * Config::tile_m;
  const int next_row =
      first_row + Config::tile_m < mask.seqlen_q ? first_row + Config::tile_m : mask.seqlen_q;
  const int key_end = mask.visible_end(next_row - 1);
  return {(key_end + Config::tile_n - 1) / Config::tile_n, mask.visible_end(first_row) / Config::tile_n,
          key_end};
}

}  // namespace fa2
