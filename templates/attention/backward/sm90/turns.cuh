// In which order tiles of keys add to dQ, where its bits must not depend on when blocks run: main loop 90.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/backward/sums.cuh"
#include "ptx/flag.cuh"

namespace fa2 {

/// The tile of the sums of dQ of a step's queries.
template <class Config>
FA2_DEVICE int sum_tile_of(const BackwardParams& params, const KeyWork<Config>& work, const QueryStep& step) {
  using Sums = QuerySums<Config::tile_n, BackwardLayoutSm90<Config>::padded_dim>;
  const int head = work.shape().q_entry * params.attention.heads_q + step.head;
  return head * Sums::tiles(params.statistic_rows) +
         first_sum_tile(work.shape(), work.at.batch, Config::tile_n) + step.n;
}

/// When a consumer warpgroup may add, by named barriers that it shares with the keeper of its turns.
struct TurnBarriers {
  static constexpr int threads = 128 + 32;
  int warpgroup;

  /// The keeper's word to the consumers, who wait for it.
  FA2_DEVICE void begin() const { ptx::bar_arrive(4 + warpgroup, threads); }
  FA2_DEVICE void await_begin() const { ptx::bar_sync(4 + warpgroup, threads); }
  /// A consumer's word to the keeper, who waits for it.
  FA2_DEVICE void end() const { ptx::bar_arrive(6 + warpgroup, threads); }
  FA2_DEVICE void await_end() const { ptx::bar_sync(6 + warpgroup, threads); }
};

/// Tiles of keys take turns at each tile of queries, in ascending order: a block waits for that of a lower index, whose
/// tile of keys comes before its own. A warp that computes nothing keeps the turns of one warpgroup, for a wait or a fence
/// of global memory takes as long as a product.
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
  /// The tile of keys before this one adds to blocks of queries before this.
  FA2_DEVICE int end_before() const {
    if (work.at.q_tile == 0) return 0;
    const QueryBlocks<Config> blocks =
        key_blocks(work.queries, (work.at.q_tile - 1) * Config::tile_m, Config::tile_m);
    return blocks.is_empty() ? 0 : blocks.end;
  }

  FA2_DEVICE u32* flag_of(const QueryStep& step) const {
    float* const turns = params.delta + 2 * params.statistic_count;
    return reinterpret_cast<u32*>(turns) +
           static_cast<i64>(sum_tile_of(params, work, step)) * Config::tile_n + warpgroup;
  }
};

}  // namespace fa2
