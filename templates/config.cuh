// A placeholder for editors and clang-format. The generator renders this file for each kernel.
#pragma once

#include "config_defaults.cuh"

namespace fa2 {

struct Config : ConfigDefaults {
  static constexpr int head_dim = 128;
  static constexpr int head_dim_v = 128;
  static constexpr MaskKind mask = MaskKind::causal_bottom_right;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 64;
  static constexpr int stages = 2;
  static constexpr int packs_heads = 1;
  static constexpr int shared_bytes = 98304;
};

}  // namespace fa2
