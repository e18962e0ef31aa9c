// The rows of 656 bytes in which DeepSeek-V3.2 caches a latent: 512 e4m3 columns, a float32 factor for each 128 of them, and 64
// columns of bfloat16, which positions have rotated. (vLLM calls the format fp8_ds_mla.) Host code includes this file too.
#pragma once

namespace fa2 {

/// The places in a row; in 16-bit words, but for columns.
struct LatentRow {
  static constexpr int byte_cols = 512, group_cols = 128, groups = byte_cols / group_cols;
  static constexpr int factors = byte_cols / 2, rotated = factors + 2 * groups, rotated_cols = 64;
  static constexpr int words = rotated + rotated_cols;
  static constexpr int cols = byte_cols + rotated_cols, bytes = 2 * words;
};

}  // namespace fa2
