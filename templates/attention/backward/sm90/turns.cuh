// Ordered dQ accumulation: key tiles add to dQ in a fixed order, so that its bits do not depend on when
// blocks run.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/backward/sums.cuh"
#include "ptx/flag.cuh"

namespace fa2 {

/// Returns the accumulator tile for the queries of an iteration.
template <class Config>
FA2_DEVICE int sum_tile_of(const BackwardParams& params, const KeyWork<Config>& work, const QueryStep& step) {
  using Sums = QuerySums<Config::tile_n, BackwardLayoutSm90<Config>::padded_dim>;
  const int head = work.shape().q_entry * params.attention.heads_q + step.head;
  return head * Sums::tiles(params.statistic_rows) +
         first_sum_tile(work.shape(), work.at.batch, Config::tile_n) + step.n;
}

/// Returns the number of a warpgroup's first wgmma tile in an accumulator tile. Each block of a cluster has half of
/// them.
template <class Config>
FA2_DEVICE int first_m_tile(int warpgroup) {
  using Layout = BackwardLayoutSm90<Config>;
  using Sums = QuerySums<Config::tile_n, Layout::padded_dim>;
  if constexpr (Layout::alternates) return 0;
  return (block_of_tile<Config>() * Sums::warpgroups + warpgroup) * (Sums::m_tiles / Layout::blocks);
}

/// Named barriers between a consumer warpgroup and the warp that serves it: its semaphore warp, or its BulkAdder. They say
/// when the warpgroup may add.
struct TurnBarriers {
  static constexpr int threads = 128 + 32;
  int warpgroup;

  /// The serving warp calls begin(), and the consumers wait in await_begin().
  FA2_DEVICE void begin() const { ptx::bar_arrive(4 + warpgroup, threads); }
  FA2_DEVICE void await_begin() const { ptx::bar_sync(4 + warpgroup, threads); }
  /// The consumers call end(), and the serving warp waits in await_end().
  FA2_DEVICE void end() const { ptx::bar_arrive(6 + warpgroup, threads); }
  FA2_DEVICE void await_end() const { ptx::bar_sync(6 + warpgroup, threads); }
};

/// The semaphore warp of one warpgroup. Key tiles add to each query tile in ascending order: a block waits
/// for the block of the previous key tile, which has a lower index. A separate warp waits and fences, because
/// either takes as long as a product.
template <class Config>
struct TurnKeeper {
  const BackwardParams& params;
  const KeyWork<Config>& work;
  int warpgroup;

  FA2_DEVICE void run() const {
    const TurnBarriers barriers{warpgroup};
    const u32 key_tile = static_cast<u32>(work.at.q_tile);
    const int end = end_before();
    QueryStep step = QueryStep::first(work);
    for (int i = 0; i < work.steps(); ++i) {
      u32* const flag = flag_of(step);
      if (step.n < end) ptx::await_global_u32(flag, key_tile);
      barriers.begin();
      barriers.await_end();
      if (ptx::elect_one()) ptx::st_release_global_u32(flag, key_tile + 1);
      step.advance(work);
    }
  }

 private:
  /// Returns the end of the query blocks to which the previous key tile adds; 0 if none.
  FA2_DEVICE int end_before() const {
    if (work.at.q_tile == 0) return 0;
    const QueryBlocks<Config> blocks =
        key_blocks(work.queries, (work.at.q_tile - 1) * Config::tile_m, Config::tile_m);
    return blocks.is_empty() ? 0 : blocks.end;
  }

  FA2_DEVICE u32* flag_of(const QueryStep& step) const {
    float* const turns = params.delta + 2 * params.statistic_count;
    return reinterpret_cast<u32*>(turns) +
           static_cast<i64>(sum_tile_of(params, work, step)) * Config::tile_n +
           (block_of_tile<Config>() * 2 + warpgroup);
  }
};

}  // namespace fa2
