// A warpgroup's part of dQ in the fused backward kernel on wgmma. All keys of the tile contribute to dQ.
#pragma once

#include "attention/backward/sm90/turns.cuh"
#include "attention/backward/sums.cuh"
#include "attention/common/dropout.cuh"
#include "attention/common/score_mod.cuh"
#include "ptx/proxy.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/wgmma_gemm.cuh"

namespace fa2 {

template <class Config>
struct QueryGradient {
  using Element = typename Config::Element;
  using Layout = BackwardLayoutSm90<Config>;
  using Sums = QuerySums<Config::tile_n, Layout::padded_dim>;
  static constexpr int m_tiles = Sums::m_tiles / Layout::blocks;

  const BackwardParams& params;
  Layout shared;
  int warpgroup;
  int warp;  ///< index in its warpgroup; 0 to 3

  typename Sums::Accumulators dq[m_tiles];

  /// Issues dQ = dS K, or its transpose, from the dS in one slot.
  FA2_DEVICE void issue(const ScoreState<Config>& at) {
    ptx::mbarrier_wait(shared.scores_full(at.index), at.phase);
    if constexpr (Layout::blocks > 1) ptx::mbarrier_wait_copies(shared.received_full(at.index), at.phase);
    ptx::wgmma_fence();
    FA2_UNROLL
    for (int m = 0; m < m_tiles; ++m) {
      FA2_UNROLL
      for (int tile = 0; tile < Layout::key_tiles; ++tile) {
        const typename Layout::ScoreTile scores = shared.scores(at.index, tile);
        if constexpr (Sums::transposed) {
          wgmma_tt<Element>(dq[m], shared.keys(tile), first_row(m), scores, tile > 0);
        } else {
          wgmma_nn<Element>(dq[m], scores, first_row(m), shared.keys(tile), tile > 0);
        }
      }
      if constexpr (Layout::blocks > 1)
        wgmma_tt<Element>(dq[m], shared.received_keys(block_of_tile<Config>()), first_row(m),
                          shared.received_scores(at.index), true);
    }
    ptx::wgmma_commit_group();
  }

  /// Must follow the wait for the product. Releases the slot for this warp, and adds its dQ to accumulator
  /// tile `tile`.
  FA2_DEVICE void finish(const ScoreState<Config>& at, int tile) {
    FA2_UNROLL
    for (int m = 0; m < m_tiles; ++m) hold(dq[m]);
    release(shared.scores_empty(at.index));
    if constexpr (Layout::blocks > 1) release(shared.received_empty(at.index));
    if constexpr (Config::bulk_sums) return stage();
    if constexpr (Config::orders_sums) TurnBarriers{warpgroup}.await_begin();
    FA2_UNROLL
    for (int m = 0; m < m_tiles; ++m) {
      if (Sums::transposed && first_row(m) + warp * 16 >= Layout::padded_dim) break;
      float* const to = Sums::address(params, tile, m_tile(m));
      for_each_four(dq[m], [&](const float(&value)[4], int j) {
        ptx::red_add_global_v4_f32(to + j * Sums::stride, value);
      });
    }
    if constexpr (Config::orders_sums) TurnBarriers{warpgroup}.end();
  }

 private:
  /// Puts dQ where a BulkAdder finds it.
  FA2_DEVICE void stage() {
    static_assert(!Config::bulk_sums || m_tiles == 1, "a warpgroup has one accumulator");
    const TurnBarriers barriers{warpgroup};
    barriers.await_begin();
    const SharedAddress to = shared.sums(warpgroup) + static_cast<u32>(ptx::thread_index() % 128 * 16);
    for_each_four(dq[0], [&](const float(&v)[4], int j) {
      const ptx::Vector16 four{
          {ptx::bits_of(v[0]), ptx::bits_of(v[1]), ptx::bits_of(v[2]), ptx::bits_of(v[3])}};
      ptx::st_shared_v4(to + static_cast<u32>(4 * Sums::stride * j), four);
    });
    ptx::fence_proxy_async_shared();
    barriers.end();
  }

  /// Returns the number of accumulator `m` among the tile's.
  FA2_DEVICE int m_tile(int m) const { return first_m_tile<Config>(warpgroup) + m; }
  FA2_DEVICE int first_row(int m) const { return 64 * m_tile(m); }
};

/// Stores a warp's rounded scores, for 16 keys, in a tile with one row per query. wgmma may read them once
/// all warps have arrived.
template <class Tile, int kSteps>
FA2_DEVICE void publish_scores(Tile tile, const OperandA<1> (&scores)[kSteps], int warp) {
  FA2_UNROLL
  for (int k = 0; k < kSteps; ++k)
    ptx::stmatrix_x4_trans(tile.template block_address<BlockOrder::across>(16 * k, 16 * warp),
                           scores[k].pair[0]);
  ptx::fence_proxy_async_shared();
  ptx::bar_warp_sync();
}

template <class Config>
FA2_DEVICE ScoreMod<Config> score_mod_of(const BackwardParams& params, const KeyWork<Config>& work,
                                         const QueryStep& step) {
  return score_mod_of<Config>(params.attention, work.shape(), {work.at.q_tile, step.head, work.at.batch});
}

/// Returns the random numbers for an iteration's head. `dropout`: those of the launch.
template <class Config>
FA2_DEVICE Dropout<Config> dropout_of_step(const Dropout<Config>& dropout, const BackwardParams& params,
                                           const KeyWork<Config>& work, const QueryStep& step) {
  return dropout.of_head(work.shape(), work.at.batch * params.attention.heads_q + step.head);
}

}  // namespace fa2
