// The gradient of a captured tensor that is the bias: dS itself, and what batch entries or heads share is a sum.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/common/score_mod.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// A warp's part of the gradient, in float32. Nothing for kernels without one. `Params`: AttentionParams, whose captures are known
/// where this is used.
template <class Config, class Params = AttentionParams, bool kExists = BiasGradientTile<Config>::exists>
struct BiasGradient {
  const Params& params;
  const KeyWork<Config>& work;
  SharedAddress tile;

  template <int kN>
  FA2_DEVICE void add(const QueryStep&, const AccumulatorTile<1, kN>&, int) const {}
  FA2_DEVICE static void finish() {}
};
template <class Config, class Params>
struct BiasGradient<Config, Params, true> {
  const Params& params;
  const KeyWork<Config>& work;
  typename BiasGradientTile<Config>::Tile tile;

  FA2_DEVICE BiasGradient(const Params& of_call, const KeyWork<Config>& of_block, SharedAddress base)
      : params(of_call), work(of_block), tile{base} {}

  /// Adds a block of dS, if the call wants the gradient. Rows are the warp's keys, from `first_key` on.
  template <int kN>
  FA2_DEVICE void add(const QueryStep& step, const AccumulatorTile<1, kN>& gradients, int first_key) const {
    const CaptureParams& capture = params.list[Config::staged_capture];
    if (capture.number == 0 || first_key >= work.shape().seqlen_k) return;
    const Block block{score::index_of_score(work.at.batch, capture.sizes[0]),
                      score::index_of_score(step.head, capture.sizes[1]), step.n * Config::tile_n, first_key,
                      capture.sizes[0] == 1 || capture.sizes[1] == 1};
    if (params.gradient_map.words[0] != 0) {
      add_tile(gradients, block);
    } else {
      add_elements(gradients, capture, block);
    }
  }

  /// Waits until the gradient has left shared memory.
  FA2_DEVICE static void finish() {
    if (ptx::lane_index() == 0) ptx::bulk_wait_group<0>();
  }

 private:
  struct Block {
    int batch, head, first_query, first_key;
    bool is_shared;  ///< with other batch entries or heads
  };

  /// Adds by TMA, which leaves out what lies outside the tensor.
  template <int kN>
  FA2_DEVICE void add_tile(const AccumulatorTile<1, kN>& gradients, const Block& at) const {
    const bool is_leader = ptx::lane_index() == 0;
    if (is_leader) ptx::bulk_wait_group_read<0>();
    ptx::bar_warp_sync();
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int byte = 4 * (fragment_row() + i / 2 * 8), row = 8 * n + fragment_col() + i % 2;
        const SharedAddress chunk = tile.chunk_address(row, byte / 16 * 8);
        ptx::st_shared_u32(chunk + static_cast<u32>(byte % 16), ptx::bits_of(gradients.value[0][n][i]));
      }
    }
    ptx::fence_proxy_async_shared();
    ptx::bar_warp_sync();
    if (is_leader) {
      const TensorMap& map = reinterpret_cast<const TensorMap&>(params.gradient_map);
      const ptx::TensorCoordinates box{{at.first_key, at.first_query, at.head, at.batch, 0}};
      if (at.is_shared) {
        ptx::tma_reduce_add(map, box, tile.base);
      } else {
        ptx::tma_store(map, box, tile.base);
      }
      ptx::bulk_commit_group();
    }
    ptx::bar_warp_sync();
  }

  /// Adds each element, where rows of the gradient are no multiples of 16 bytes.
  template <int kN>
  FA2_DEVICE void add_elements(const AccumulatorTile<1, kN>& gradients, const CaptureParams& capture,
                               const Block& at) const {
    const SequenceShape& shape = work.shape();
    const int key = at.first_key + fragment_row(), query = at.first_query + fragment_col();
    const i64 head = static_cast<i64>(at.batch) * capture.sizes[1] + at.head;
    float* const to =
        reinterpret_cast<float*>(capture.number) + (head * capture.sizes[2] + query) * capture.sizes[3] + key;
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int below = 8 * n + i % 2, right = i / 2 * 8;
        if (query + below >= shape.seqlen_q || key + right >= shape.seqlen_k) continue;
        float* const element = to + static_cast<i64>(below) * capture.sizes[3] + right;
        if (at.is_shared) {
          ptx::red_add_global_f32(element, gradients.value[0][n][i]);
        } else {
          ptx::st_global_f32(element, gradients.value[0][n][i]);
        }
      }
    }
  }
};

}  // namespace fa2
