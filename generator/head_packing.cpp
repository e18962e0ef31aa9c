#include <core/text_reads.h>
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/sequences.h>

#include <algorithm>

namespace fa2 {
namespace {

constexpr int kBoxRows = 64;  // of a warpgroup

constexpr std::int64_t divided_up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

HeadPacking packing_of(int heads) {
  HeadPacking packing{};
  packing.heads = heads;
  packing.inverse = static_cast<int>(divided_up(1 << 16, heads));
  packing.block_log2 = heads > kBoxRows ? 7 : 6;
  packing.queries = (1 << packing.block_log2) / heads;
  packing.query_inverse = static_cast<unsigned>(divided_up(std::int64_t{1} << 31, packing.queries));
  packing.box_heads = std::min(heads, kBoxRows);
  return packing;
}

/// Returns the most heads that tiles may share: a divisor of the group. Rows of a tile of scores are queries of one head.
int most_heads(const AttentionProblem& p) {
  if (p.dropout || p.heads_kv <= 0) return 1;
  if (p.score_text != 0 && capture_per_score(p.score_text) != kNoCapture) return 1;
  const std::int64_t group = p.heads_q / p.heads_kv;
  for (int heads = kMostPackedHeads; heads > 1; --heads) {
    if (group % heads == 0) return heads;
  }
  return 1;
}

/// Returns the tiles of `heads` heads of sequences of equal lengths.
std::int64_t tiles_of(const HeadPacking& packing, std::int64_t queries, std::int64_t heads, int tile_m) {
  return heads / packing.heads * divided_up(packed_rows(packing, queries), tile_m);
}

}  // namespace

HeadPacking head_packing(const AttentionProblem& problem, int tile_m) {
  const HeadPacking apart = packing_of(1), packed = packing_of(most_heads(problem));
  if (problem.batch_invariant) return packed;
  const std::int64_t queries = with_mean_lengths(problem).seqlen_q;
  const auto tiles = [&](const HeadPacking& packing) {
    return tiles_of(packing, queries, packed.heads, tile_m);
  };
  return 10 * tiles(packed) <= 9 * tiles(apart) ? packed : apart;
}

HeadPacking head_packing(const AttentionProblem& problem, const KernelConfig& config) {
  return pass_of(config) == KernelPass::forward ? head_packing(problem, config.tile_m) : packing_of(1);
}

std::int64_t most_query_tiles(const AttentionProblem& p, const KernelConfig& config) {
  const HeadPacking packing = head_packing(p, config);
  const std::int64_t equal = p.batch * tiles_of(packing, p.seqlen_q, p.heads_q, config.tile_m);
  if (p.total_q == 0) return equal;
  // Each sequence may end inside a block of rows, and inside a tile.
  const std::int64_t blocks = p.total_q / packing.queries + p.batch;
  const std::int64_t rows = packing.heads == 1 ? p.total_q : blocks << packing.block_log2;
  return std::min(equal, p.heads_q / packing.heads * (rows / config.tile_m + p.batch));
}

}  // namespace fa2
