// The map of the KV blocks that the text of a mask shows (templates/attention/common/key_map.cuh).
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

/// KernelConfig::key_map of the kernel that makes a map: rows of its tiles are queries, as a forward has them, or keys.
inline constexpr std::int32_t kMapOfQueries = 1, kMapOfKeys = 2;

/// Whether the problem has the text of a mask.
bool has_mask_text(const AttentionProblem& problem);

/// Which tiles have bits of their own, and how many each has.
struct KeyMapLayout {
  std::int64_t blocks = 0;   ///< of a tile
  std::int64_t words = 0;    ///< of 32 blocks
  std::int64_t tiles = 0;    ///< of one head
  std::int64_t heads = 1;    ///< heads that share tiles count as one; 1 if all heads see the same
  std::int64_t batches = 1;  ///< 1 if all sequences see the same

  std::int64_t rows() const { return batches * heads * tiles; }
  /// Returns the bytes of the whole map, which has two kinds of bits.
  std::size_t bytes() const { return static_cast<std::size_t>(rows() * words) * 2 * sizeof(std::uint32_t); }
};

/// Returns the layout of the map that a kernel with this config reads or makes.
KeyMapLayout key_map_layout(const AttentionProblem& problem, const KernelConfig& config);

/// Returns the config of the kernel that makes the map for a kernel with this config.
KernelConfig key_map_config(const KernelConfig& config);

}  // namespace fa2
