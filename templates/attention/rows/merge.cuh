// The merge kernel: merges attention outputs over disjoint keys by their LSE.
//
// Launch: one thread per eight columns of a row.
#pragma once

#include "attention/common/lse_base.cuh"
#include "attention/rows/merge_params.cuh"
#include "attention/rows/row_chunks.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Eight columns of one head's row.
struct MergedRow {
  int batch;
  int head;
  int row;
  int col;
};

/// The weights of partial outputs: exp(LSE - largest LSE). The difference comes first, because it is exact
/// for the heavy ones.
template <class Config>
struct PartWeights {
  const float* lse;
  i64 part_stride;
  int count;
  float largest;
  float sum;

  FA2_DEVICE PartWeights(const MergeParams& params, const MergedRow& at)
      : lse(params.lse_parts + place_of(params.lse_strides, at.batch, at.head, at.row)),
        part_stride(params.lse_part_stride),
        count(params.part_count),
        largest(-ptx::infinity()),
        sum(0.0f) {
    for (int part = 0; part < count; ++part) largest = ptx::max_or_nan_f32(largest, lse_of(part));
    for (int part = 0; part < count; ++part) sum += of(part);
  }

  /// Returns a part's LSE. A part without a key may hold either infinity; both become -inf.
  FA2_DEVICE float lse_of(int part) const {
    const float value = ptx::ld_global_f32(lse + part * part_stride);
    return value == ptx::infinity() ? -value : value;
  }
  FA2_DEVICE float of(int part) const {
    const float value = lse_of(part);
    return value == -ptx::infinity() ? 0.0f : ptx::ex2_approx((value - largest) * LseUnit<Config>::to_log2);
  }
  FA2_DEVICE float log_sum_exp(float empty_row) const {
    return sum == 0.0f ? empty_row : ptx::fma_rn(ptx::lg2_approx(sum), LseUnit<Config>::of_log2, largest);
  }
};

/// Computes the weighted mean of the partial outputs at `place`. A part of weight 0 is not read, because it
/// may hold anything.
template <class Config, class Part>
FA2_DEVICE void merge_parts(const MergeParams& params, const PartWeights<Config>& weights, i64 place,
                            float (&merged)[8]) {
  const float factor = weights.sum == 0.0f ? 0.0f : ptx::rcp_rn(weights.sum);
  for (int part = 0; part < weights.count; ++part) {
    const float weight = weights.of(part) * factor;
    if (weight == 0.0f) continue;
    float value[8];
    load_eight<Config>(static_cast<const Part*>(params.parts) + part * params.part_stride + place, value);
    FA2_UNROLL
    for (int i = 0; i < 8; ++i) merged[i] = ptx::fma_rn(weight, value[i], merged[i]);
  }
}

/// Runs one thread: eight columns of a row.
template <class Config>
FA2_DEVICE void merge(const MergeParams& params) {
  constexpr int kThreadsOfRow = Config::head_dim / 8;
  const i64 thread = static_cast<i64>(ptx::block_index()) * (Config::warps * 32) + ptx::thread_index();
  const i64 number = thread / kThreadsOfRow;
  if (number >= params.rows) return;
  const int head_number = static_cast<int>(number / params.seqlen);
  const MergedRow at{head_number / params.heads, head_number % params.heads,
                     static_cast<int>(number % params.seqlen), static_cast<int>(thread % kThreadsOfRow) * 8};
  const PartWeights<Config> weights(params, at);
  const i64 from = place_of(params.parts_strides, at.batch, at.head, at.row) + at.col;
  // -0 is the neutral element of sums: a single part keeps its bits.
  const float neutral = weights.sum == 0.0f ? 0.0f : -0.0f;
  float merged[8];
  FA2_UNROLL
  for (float& value : merged) value = neutral;
  if (params.float32_parts != 0) {
    merge_parts<Config, float>(params, weights, from, merged);
  } else {
    merge_parts<Config, u16>(params, weights, from, merged);
  }
  const i64 to = place_of(params.o_strides, at.batch, at.head, at.row) + at.col;
  if (params.float32_output != 0) {
    store_eight(static_cast<float*>(params.o) + to, merged);
  } else {
    store_eight<Config>(static_cast<u16*>(params.o) + to, merged);
  }
  if (at.col == 0 && params.lse != nullptr)
    ptx::st_global_f32(params.lse + number, weights.log_sum_exp(params.empty_row_lse));
}

}  // namespace fa2
