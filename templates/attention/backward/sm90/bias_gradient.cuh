// The gradient of a captured tensor that is the bias: dS itself, and what batch entries or heads share is a sum.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/common/captured.cuh"
#include "ptx/atomic.cuh"
#include "ptx/vector8.cuh"

namespace fa2 {

/// A warp that adds the dS of each step, which lies in shared memory for dQ, to the gradient. `Params`: AttentionParams, whose captures
/// are known where this is used.
template <class Config, class Params>
struct BiasAdder {
  using Layout = BackwardLayoutSm90<Config>;
  static constexpr int keys = 4;   ///< that a lane adds at once
  static constexpr int loads = 2;  ///< that a lane has in flight, of every second query
  static constexpr int queries = 2 * loads;

  const Params& params;
  const KeyWork<Config>& work;
  Layout shared;
  int number;  ///< among Layout::bias_adders

  FA2_DEVICE void run() const {
    const CaptureParams& capture = params.list[Config::staged_capture];
    ScoreState<Config> place;
    QueryStep step = QueryStep::first(work);
    for (int i = 0; i < work.steps(); ++i) {
      ptx::mbarrier_wait(shared.scores_full(place.index), place.phase);
      if (capture.number != 0) add(capture, step, place);
      ptx::bar_warp_sync();  // all lanes have read
      release(shared.scores_empty(place.index));
      step.advance(work);
      place.advance();
    }
  }

 private:
  /// Half a warp has the keys of a query in one key tile.
  FA2_DEVICE void add(const CaptureParams& capture, const QueryStep& step,
                      const ScoreState<Config>& place) const {
    const int batch = score::index_of_score(work.at.batch, capture.sizes[0]);
    const int head = score::index_of_score(step.head, capture.sizes[1]);
    const bool is_shared = capture.sizes[0] == 1 || capture.sizes[1] == 1;
    const bool is_aligned = capture.number % 16 == 0 && capture.sizes[3] % keys == 0;
    const int group = ptx::lane_index() % 16, own_query = ptx::lane_index() / 16;
    const int first_query = step.n * Config::tile_n + own_query, first_key = work.first_key() + keys * group;
    const i64 row = (static_cast<i64>(batch) * capture.sizes[1] + head) * capture.sizes[2] + first_query;
    float* const first = reinterpret_cast<float*>(capture.number) + row * capture.sizes[3] + first_key;
    constexpr int kBlocks = Config::tile_n / queries;
    FA2_NO_UNROLL
    for (int i = number; i < Layout::key_tiles * kBlocks; i += Layout::bias_adders) {
      const int tile = i / kBlocks, query = i % kBlocks * queries;
      const SharedAddress from =
          shared.scores(place.index, tile).chunk_address(query + own_query, group / 2 * 8) +
          static_cast<u32>(group % 2 * 8);
      ptx::Vector8 pairs[loads];
      FA2_UNROLL
      for (int j = 0; j < loads; ++j)  // the swizzle of 2 j rows below
        pairs[j] = ptx::ld_shared_v2((from ^ static_cast<u32>(32 * j)) + static_cast<u32>(256 * j));
      float* to = first + static_cast<i64>(query) * capture.sizes[3] + 64 * tile;
      const int left = work.shape().seqlen_k - first_key - 64 * tile;
      FA2_UNROLL
      for (int j = 0; j < loads; ++j) {
        if (first_query + query + 2 * j < work.shape().seqlen_q)
          add_keys(to, pairs[j], left, is_shared, is_aligned);
        to += 2 * static_cast<i64>(capture.sizes[3]);
      }
    }
  }

  /// Adds the gradients of up to `left` keys.
  FA2_DEVICE static void add_keys(float* to, const ptx::Vector8& pairs, int left, bool is_shared,
                                  bool is_aligned) {
    using Element = typename Config::Element;
    const ptx::Pair low = ptx::cvt_f32_x2<Element>(pairs.word[0]),
                    high = ptx::cvt_f32_x2<Element>(pairs.word[1]);
    const float values[keys] = {low.low, low.high, high.low, high.high};
    if (is_aligned && left >= keys) {
      if (is_shared) return ptx::red_add_global_v4_f32(to, values);
      return ptx::st_global_v4(to, ptx::Vector16{{ptx::bits_of(values[0]), ptx::bits_of(values[1]),
                                                  ptx::bits_of(values[2]), ptx::bits_of(values[3])}});
    }
    FA2_UNROLL
    for (int i = 0; i < keys; ++i) {
      if (i >= left) break;
      if (is_shared) {
        ptx::red_add_global_f32(to + i, values[i]);
      } else {
        ptx::st_global_f32(to + i, values[i]);
      }
    }
  }
};

}  // namespace fa2
