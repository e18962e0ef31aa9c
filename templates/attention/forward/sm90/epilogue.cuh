// Epilogue of a consumer warpgroup: stores its normalised output with TMA (FlashAttention-2, Algorithm 1,
// lines 12-15).
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "attention/forward/sm90/query_box.cuh"
#include "ptx/barrier.cuh"
#include "ptx/proxy.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Returns the warpgroup's own named barrier. Ping-pong scheduling uses the barriers from 1 on.
FA2_DEVICE int own_barrier(int warpgroup) {
  return 8 + warpgroup;
}

/// Waits for the warpgroup's other warps. The barrier's number is computed again at each use, because wide heads
/// leave no register to keep it in.
FA2_DEVICE void sync_warpgroup(int warpgroup) {
  ptx::bar_sync(own_barrier(static_cast<int>(ptx::renewed(static_cast<u32>(warpgroup)))), 128);
}

/// Rounds `output` into `tile`: this warp's 16 of the tile's 64 rows.
template <class Element, int kN, class Tile>
FA2_DEVICE void stage_output(Tile tile, const AccumulatorTile<1, kN>& output) {
  const int row = ptx::warp_index() % 4 * 16;
  FA2_UNROLL
  for (int k = 0; k < kN / 2; ++k) {
    // Rounded accumulators of 16 columns are the four blocks that stmatrix stores: an A operand's, in the
    // same order.
    const OperandA<1> rounded = round_to_operand_a<Element>(output, k);
    ptx::stmatrix_x4(tile.template block_address<BlockOrder::down>(row, 16 * k), rounded.pair[0]);
  }
}

/// Stores the rows of `tile` that the sequence has, because TMA would also overwrite the next sequence's rows. `first_row`:
/// the tile's first row in the sequence. `thread`: the caller's number among the kThreads that share the work.
template <class Config, int kThreads, class Tile>
FA2_DEVICE void store_first_rows(Tile tile, const AttentionParams& params, const SequenceShape& shape,
                                 const TileCoordinates& at, int first_row, int thread) {
  constexpr int kChunks = Config::head_dim_v / 8;
  FA2_NO_UNROLL
  for (int i = thread; i < (shape.rows - first_row) * kChunks; i += kThreads) {
    const int row = i / kChunks, col = i % kChunks * 8;
    if (!row_map_of<Config>(params).is_filled(first_row + row)) continue;
    ptx::st_global_v4(output_row<Config>(params, shape, at, first_row + row) + col,
                      ptx::ld_shared_v4(tile.chunk_address(row, col)));
  }
}

/// Stores a warpgroup's outputs in global memory. Each passes through shared memory: a slot of the ring, or the
/// memory of its queries. Float32 leaves from registers.
template <class Config>
struct OutputStore {
  using Layout = SharedLayoutSm90<Config>;

  const AttentionParamsSm90& params;
  Layout shared;
  const TileTurn& turn;
  KeyValueReader<Config>& ring;
  int warpgroup;
  SharedAddress held = 0;  ///< mbarrier that waits for the release of the last tile's memory, or 0

  /// Tells the producer that this warp does not read its queries again.
  FA2_DEVICE void release_queries() const {
    if constexpr (Layout::stages_output_in_ring) {
      if (ptx::elect_one()) ptx::mbarrier_arrive(shared.queries_empty(0));
    }
  }

  /// Starts to store a tile's output. `first_row`: the warpgroup's first row in the sequence.
  template <int kN>
  FA2_DEVICE void start(const AccumulatorTile<1, kN>& output, const SequenceShape& shape,
                        const TileCoordinates& at, int first_row) {
    if constexpr (Config::float32_out) {
      sync_warpgroup(warpgroup);  // before the memory of the queries is handed on
      skip();
      store_float_output<Config>(params.attention, shape, at, first_row + ptx::warp_index() % 4 * 16, output);
    } else if constexpr (Layout::stages_output_in_ring) {
      PipelineState<Config::stages> own = ring.next;
      for (int w = 0; w < warpgroup; ++w) own.advance();
      ring.consumer_wait(own);
      store_through(shared.output(own.index), output, shape, at, first_row);
      held = shared.slot_empty(own.index);
      if (ptx::warp_index() % 4 != 0) ring.consumer_release(own);
      for (int w = 0; w < Layout::warpgroups; ++w) {
        const PipelineState<Config::stages> slot = ring.take();
        if (w != warpgroup) ring.skip(slot);
      }
    } else {
      if constexpr (Layout::QueryTile::cols != Layout::OutputTile::cols) {
        sync_warpgroup(warpgroup);  // this warp's output lies where others' queries do
      }
      const int buffer = turn.place(Config::q_buffers);
      store_through({shared.queries(buffer, warpgroup).base}, output, shape, at, first_row);
      held = shared.queries_empty(buffer);
      if constexpr (Config::q_buffers == 1) finish();
    }
  }

  /// Ends a tile whose output is stored elsewhere. Every warp of the warpgroup must have read its queries.
  FA2_DEVICE void skip() {
    held = shared.queries_empty(turn.place(Config::q_buffers));
    if constexpr (Config::q_buffers == 1) finish();
  }

  /// Releases the memory of the last tile's output once TMA has read it. The next tile must call it before it waits
  /// for values, and best after the issue of its first product: until then the producer does not need the memory.
  FA2_DEVICE void finish() {
    if (held != 0 && ptx::thread_index() % 128 == 0) {
      ptx::bulk_wait_group_read<0>();
      ptx::mbarrier_arrive(held);
    }
    held = 0;
  }

 private:
  template <int kN>
  FA2_DEVICE void store_through(typename Layout::OutputTile tile, const AccumulatorTile<1, kN>& output,
                                const SequenceShape& shape, const TileCoordinates& at, int first_row) {
    stage_output<typename Config::Element>(tile, output);
    ptx::fence_proxy_async_shared();
    sync_warpgroup(warpgroup);
    if (Config::varlen && first_row + 64 > shape.rows) {
      store_first_rows<Config, 128>(tile, params.attention, shape, at, first_row, ptx::thread_index() % 128);
      sync_warpgroup(warpgroup);  // before one thread hands the tile's memory on
    } else if (ptx::thread_index() % 128 == 0 && first_row < shape.rows) {
      tma_store_tile<PackedShape<Config::head_dim_v>>(
          params.o, query_box<Config>(params.attention, shape, at, first_row), tile);
    }
  }
};

}  // namespace fa2
