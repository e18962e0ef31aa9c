// The gradient of a captured tensor that is the bias: dS itself.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/common/score_mod.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// Stores a tile of dS in the gradient, if texts are such a bias and the call wants it. What batch entries or heads share are sums.
/// Rows are keys and columns are queries, as the tile has them; those beyond the lengths are left out.
template <class Config, int kN>
FA2_DEVICE void add_bias_gradient(const AttentionParams& params, const KeyWork<Config>& work,
                                  const QueryStep& step, const AccumulatorTile<1, kN>& gradients,
                                  int first_key, int first_query) {
  if constexpr (score::Text::staged_is_bias && !Config::softcap) {
    const CaptureParams& capture = score::Text::staged_params(params);
    if (capture.number == 0) return;
    const SequenceShape& shape = work.shape();
    const int batch = score::index_of_score(work.at.batch, capture.sizes[0]);
    const int head = score::index_of_score(step.head, capture.sizes[1]);
    const bool is_shared = capture.sizes[0] == 1 || capture.sizes[1] == 1;
    const int key = first_key + fragment_row(), query = first_query + fragment_col();
    const i64 row = (static_cast<i64>(batch) * capture.sizes[1] + head) * capture.sizes[2] + query;
    float* const to = reinterpret_cast<float*>(capture.number) + row * capture.sizes[3] + key;
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int below = 8 * n + i % 2, right = i / 2 * 8;
        if (query + below >= shape.seqlen_q || key + right >= shape.seqlen_k) continue;
        float* const element = to + static_cast<i64>(below) * capture.sizes[3] + right;
        if (is_shared) {
          ptx::red_add_global_f32(element, gradients.value[0][n][i]);
        } else {
          ptx::st_global_f32(element, gradients.value[0][n][i]);
        }
      }
    }
  }
}

}  // namespace fa2
