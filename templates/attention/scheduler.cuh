// Which output tile a block computes.
#pragma once

#include "attention/params.cuh"
#include "ptx/registers.cuh"

namespace fa2 {

struct TileCoordinates {
  int q_tile;
  int head;  ///< query head
  int batch;
};

/// Sequence-parallel grid (FlashAttention-2, section 3.2): one block per query tile, head and batch.
/// Heads are grouped in sections; inside a section tiles run from the last (under a causal mask: the longest)
/// to the first, heads fastest, so that the short ones fill the tail.
FA2_DEVICE TileCoordinates tile_of(u32 block, const AttentionParams& params) {
  const u32 tiles_per_section = static_cast<u32>(params.heads_per_section) * static_cast<u32>(params.q_tiles);
  const u32 section = block / tiles_per_section, in_section = block % tiles_per_section;
  const int first_head = static_cast<int>(section) * params.heads_per_section;
  const int left = params.head_count - first_head;
  const u32 heads = static_cast<u32>(left < params.heads_per_section ? left : params.heads_per_section);
  const int head = first_head + static_cast<int>(in_section % heads);
  return {params.q_tiles - 1 - static_cast<int>(in_section / heads), head % params.heads_q,
          head / params.heads_q};
}

}  // namespace fa2
