// How many query heads of one key/value head share a tile.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// Rows of the largest tile of a kernel that packs heads.
inline constexpr int kMostPackedRows = 192;
inline constexpr int kMostPackedHeads = 64;

/// Returns how many query heads of one key/value head to pack into a tile of `tile_m` rows, so that they fill it. 1 if the queries
/// of one head fill it, or if heads do not share keys. A power of two that divides the group.
int packed_heads(const AttentionProblem& problem, int tile_m);

/// Returns `config` with the packed heads that `problem` has in its tiles. The problem determines them: the heuristic, a
/// search and a tuning record all take them from here. Configs of kernels that pack none come back unchanged.
KernelConfig with_packed_heads(KernelConfig config, const AttentionProblem& problem);

}  // namespace fa2
