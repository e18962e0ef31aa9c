// Written by the golden tests: the constants of a kernel without variants, with the tunables of KernelConfig{}.
// config.cuh names those that differ.
#pragma once

#include "attention/common/mask.cuh"
#include "ptx/keywords.cuh"

namespace fa2 {

struct ConfigDefaults {
  using Element = Half;
  static constexpr int head_dim = 0;
  static constexpr int head_dim_v = 0;
  static constexpr MaskKind mask = MaskKind::none;
  static constexpr bool rows_are_16_byte_aligned = true;
  static constexpr bool window_left = false;
  static constexpr bool window_right = false;
  static constexpr bool attention_chunk = false;
  static constexpr bool softcap = false;
  static constexpr bool alibi = false;
  static constexpr bool sinks = false;
  static constexpr bool dropout = false;
  static constexpr bool query_pieces = false;
  static constexpr bool varlen = false;
  static constexpr int page_size = 0;
  static constexpr bool missing_pages = false;
  static constexpr int kv_type = 0;
  static constexpr bool values_in_keys = false;
  static constexpr bool batch_invariant = false;
  static constexpr int lse_base = 0;
  static constexpr bool max_logits = false;
  static constexpr bool float32_dk_dv = false;
  static constexpr bool float32_dq = false;
  static constexpr bool float32_out = false;
  static constexpr bool score_text = false;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 32;
  static constexpr int warps = 4;
  static constexpr int stages = 1;
  static constexpr int q_in_registers = 0;
  static constexpr int ctas_per_sm = 1;
  static constexpr int q_buffers = 0;
  static constexpr int schedule = 0;
  static constexpr int overlap = 0;
  static constexpr int pingpong = 0;
  static constexpr int speculative_max = 0;
  static constexpr int skip_masked = 0;
  static constexpr int split_gradients = 0;
  static constexpr int bulk_sums = 0;
  static constexpr int column_warps = 1;
  static constexpr int key_map = 0;
  static constexpr int score_tiles = 0;
  static constexpr int packs_heads = 0;
};

}  // namespace fa2
