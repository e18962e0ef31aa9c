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
  static constexpr int keys = 4;  ///< that a lane adds at once

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
  /// A step's part of the gradient, from this lane's first query and keys on. Half a warp has the keys of a query in one key tile.
  struct Part {
    float* to;
    i64 stride;   ///< between queries
    int queries;  ///< left
    int keys;
    bool is_shared, is_aligned;
  };

  FA2_DEVICE static int own_query() { return ptx::lane_index() / 16; }
  FA2_DEVICE static int own_keys() { return ptx::lane_index() % 16; }

  FA2_DEVICE Part part_of(const CaptureParams& capture, const QueryStep& step) const {
    const int batch = score::index_of_score(work.at.batch, capture.sizes[0]);
    const int head = score::index_of_score(step.head, capture.sizes[1]);
    const int query = step.n * Config::tile_n + own_query(), key = work.first_key() + keys * own_keys();
    const i64 row = (static_cast<i64>(batch) * capture.sizes[1] + head) * capture.sizes[2] + query;
    return {reinterpret_cast<float*>(capture.number) + row * capture.sizes[3] + key,
            capture.sizes[3],
            work.shape().seqlen_q - query,
            work.shape().seqlen_k - key,
            capture.sizes[0] == 1 || capture.sizes[1] == 1,
            capture.number % 16 == 0 && capture.sizes[3] % keys == 0};
  }

  FA2_DEVICE void add(const CaptureParams& capture, const QueryStep& step,
                      const ScoreState<Config>& place) const {
    const Part part = part_of(capture, step);
    // Without a branch, a lane's loads and stores overlap.
    const bool is_whole =
        part.is_aligned && part.queries > Config::tile_n - 2 && part.keys > 64 * (Layout::key_tiles - 1) + 3;
    if (!ptx::vote_any(!is_whole)) {
      part.is_shared ? add_whole<true>(part, place) : add_whole<false>(part, place);
    } else {
      add_edge(part, place);
    }
  }

  /// Returns the address of this lane's dS in a query of a tile.
  FA2_DEVICE SharedAddress address(const ScoreState<Config>& place, int tile, int query) const {
    return shared.scores(place.index, tile).chunk_address(query + own_query(), own_keys() / 2 * 8) +
           static_cast<u32>(own_keys() % 2 * 8);
  }

  template <bool kShared>
  FA2_DEVICE void add_whole(const Part& part, const ScoreState<Config>& place) const {
    constexpr int kLoads = 4, kQueries = 2 * kLoads, kBlocks = Config::tile_n / kQueries;
    FA2_NO_UNROLL
    for (int i = number; i < Layout::key_tiles * kBlocks; i += Layout::bias_adders) {
      const int tile = i / kBlocks, query = i % kBlocks * kQueries;
      const SharedAddress from = address(place, tile, query);
      float* to = part.to + query * part.stride + 64 * tile;
      ptx::Vector8 pairs[kLoads];
      FA2_UNROLL
      for (int j = 0; j < kLoads; ++j)  // with the swizzle of 2 j rows below
        pairs[j] = ptx::ld_shared_v2((from ^ static_cast<u32>(32 * j)) + static_cast<u32>(256 * j));
      FA2_UNROLL
      for (int j = 0; j < kLoads; ++j) {
        add_four<kShared>(to, pairs[j]);
        to += 2 * part.stride;
      }
    }
  }

  FA2_DEVICE void add_edge(const Part& part, const ScoreState<Config>& place) const {
    constexpr int kBlocks = Config::tile_n / 2;
    FA2_NO_UNROLL
    for (int i = number; i < Layout::key_tiles * kBlocks; i += Layout::bias_adders) {
      const int tile = i / kBlocks, query = i % kBlocks * 2;
      if (query < part.queries)
        add_keys(part.to + query * part.stride + 64 * tile, ptx::ld_shared_v2(address(place, tile, query)),
                 part.keys - 64 * tile, part.is_shared);
    }
  }

  template <bool kShared>
  FA2_DEVICE static void add_four(float* to, const ptx::Vector8& pairs) {
    float values[keys];
    widen(pairs, values);
    if constexpr (kShared) {
      ptx::red_add_global_v4_f32(to, values);
    } else {
      ptx::st_global_v4(to, ptx::Vector16{{ptx::bits_of(values[0]), ptx::bits_of(values[1]),
                                           ptx::bits_of(values[2]), ptx::bits_of(values[3])}});
    }
  }

  /// Adds the gradients of up to `left` keys.
  FA2_DEVICE static void add_keys(float* to, const ptx::Vector8& pairs, int left, bool is_shared) {
    float values[keys];
    widen(pairs, values);
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

  FA2_DEVICE static void widen(const ptx::Vector8& pairs, float (&values)[keys]) {
    using Element = typename Config::Element;
    const ptx::Pair low = ptx::cvt_f32_x2<Element>(pairs.word[0]),
                    high = ptx::cvt_f32_x2<Element>(pairs.word[1]);
    values[0] = low.low, values[1] = low.high, values[2] = high.low, values[3] = high.high;
  }
};

}  // namespace fa2
