// A placeholder for editors and clang-format. The generator renders this file for each kernel.
#pragma once

#include "attention/common/mask.cuh"
#include "ptx/keywords.cuh"

namespace fa2 {

struct Config {
  using Element = Half;
  static constexpr int head_dim = 128;
  static constexpr int head_dim_v = 128;
  static constexpr MaskKind mask = MaskKind::causal_bottom_right;
  static constexpr bool rows_are_16_byte_aligned = true;
  static constexpr bool window_left = false;
  static constexpr bool window_right = false;
  static constexpr bool softcap = false;
  static constexpr bool alibi = false;
  static constexpr bool sinks = false;
  static constexpr bool dropout = false;
  static constexpr bool varlen = false;
  static constexpr int page_size = 0;
  static constexpr bool batch_invariant = false;
  static constexpr int mainloop = 80;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 64;
  static constexpr int warps = 4;
  static constexpr int stages = 2;
  static constexpr int q_in_registers = 0;
  static constexpr int ctas_per_sm = 1;
  static constexpr int shared_bytes = 98304;
  static constexpr int packed_heads = 1;
};

}  // namespace fa2
