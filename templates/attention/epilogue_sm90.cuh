// A warpgroup's normalised output to global memory by TMA (FlashAttention-2, Algorithm 1, lines 12-15).
#pragma once

#include "attention/shared_layout_sm90.cuh"
#include "ptx/barrier.cuh"
#include "ptx/proxy.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/register_tile.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// Named barriers of the warpgroups' own; 1.. are the turns'.
FA2_DEVICE int own_barrier(int warpgroup) {
  return 8 + warpgroup;
}

/// Rounds `output` into `tile`, this warp's 16 of its 64 rows.
template <class Element, int kN, class Tile>
FA2_DEVICE void stage_output(Tile tile, const AccumulatorTile<1, kN>& output) {
  const int lane = ptx::lane_index();
  const int row = ptx::warp_index() % 4 * 16 + (lane & 15), col = lane >> 4 << 3;
  FA2_UNROLL
  for (int k = 0; k < kN / 2; ++k) {
    // The rounded accumulators of 16 columns are the four blocks that stmatrix stores: an A operand's, in its
    // order.
    const OperandA<1> rounded = round_to_operand_a<Element>(output, k);
    ptx::stmatrix_x4(tile.chunk_address(row, 16 * k + col), rounded.pair[0]);
  }
}

/// Stores `output` through `tile`, which lies where the warpgroup's queries were; `released` then gets an
/// arrival: the queries' memory is free.
template <class Config, int kN>
FA2_DEVICE void store_output(typename SharedLayoutSm90<Config>::OutputTile tile,
                             const AccumulatorTile<1, kN>& output, const AttentionParamsSm90& params,
                             const TensorRows& to, int warpgroup, SharedAddress released) {
  using Layout = SharedLayoutSm90<Config>;
  if constexpr (Layout::QueryTile::cols != Layout::OutputTile::cols) {
    ptx::bar_sync(own_barrier(warpgroup), 128);  // this warp's output lies where others' queries do
  }
  stage_output<typename Config::Element>(tile, output);
  ptx::fence_proxy_async_shared();
  ptx::bar_sync(own_barrier(warpgroup), 128);
  if (ptx::thread_index() % 128 == 0) {
    if (to.row < params.attention.seqlen_q * Config::packed_heads)
      tma_store_tile<TensorShape<Config::head_dim_v, Config::packed_heads>>(params.o, to, tile);
    ptx::bulk_wait_group_read<0>();
    ptx::mbarrier_arrive(released);
  }
}

}  // namespace fa2
