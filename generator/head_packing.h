// Packed GQA heads: query heads of one key/value head whose rows share tiles.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2 {

/// The most query heads that share a tile. A larger group is divided into equal parts: each has the group's largest divisor up to
/// this. If that is 1, no heads share a tile.
inline constexpr int kMostPackedHeads = 128;

/// Returns the numbering of the rows in tiles of `tile_m` rows of a forward kernel. Heads are packed if that makes at least a tenth
/// fewer tiles; with batch_invariant always, because tiles must not depend on the batch. With dropout never: a call of Philox is
/// for two queries of a head. Packed sequences count as sequences of their mean length.
HeadPacking head_packing(const AttentionProblem& problem, int tile_m);

/// Like head_packing(), for the tiles of any kernel. Only forward kernels pack heads.
HeadPacking head_packing(const AttentionProblem& problem, const KernelConfig& config);

/// Returns the query tiles of all heads, or an upper bound if only the device knows the lengths: each packed sequence may end inside
/// a tile.
std::int64_t most_query_tiles(const AttentionProblem& problem, const KernelConfig& config);

}  // namespace fa2
