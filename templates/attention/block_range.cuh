// Which key blocks some query rows visit (FlashAttention-2, section 3.1.1, "Causal masking").
#pragma once

#include "attention/mask.cuh"

namespace fa2 {

/// Blocks [0, end) of Config::tile_n keys hold every key that some of the rows sees; those in [0,
/// first_masked) are seen whole by every row and need no mask.
struct BlockRange {
  int end;
  int first_masked;
  int key_end;  ///< keys at and beyond this one are seen by none of the rows
};

template <class Config>
FA2_DEVICE BlockRange block_range(const Mask<Config>& mask, int first_row, int rows) {
  const int next_row = first_row + rows < mask.rows ? first_row + rows : mask.rows;
  const int key_end = first_row < next_row ? mask.visible_end(next_row - 1) : 0;
  return {(key_end + Config::tile_n - 1) / Config::tile_n, mask.visible_end(first_row) / Config::tile_n,
          key_end};
}

}  // namespace fa2
