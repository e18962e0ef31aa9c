// The sink gradient kernel, which runs after delta. A sink has P = exp(sink - LSE) and no value, so its dS is
// -P delta.
//
// Launch: one thread block per query head.
// Warp: takes kSinkRows queries at a time from one sequence after the other.
// Shared memory: one float per warp.
#pragma once

#include "attention/backward/sums.cuh"
#include "attention/common/lse_base.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Returns the contribution of one row. `sink` is in the base of LSE. A sink of -inf means no sink; LSE may be
/// -inf then, too.
template <class Config>
FA2_DEVICE float sink_gradient(float sink, float lse, float delta) {
  return sink == -ptx::infinity() ? 0.0f : -ptx::ex2_approx((sink - lse) * LseUnit<Config>::to_log2) * delta;
}

/// Queries whose LSE and delta a warp loads together.
constexpr int kSinkRows = 128;

/// Returns a lane's sum over kSinkRows rows from `first` on. Rows from `end` on add nothing; `end` must
/// exceed `first`.
template <class Config>
FA2_DEVICE float sink_gradient_of_rows(float sink, const float* lse, const float* delta, int first, int end) {
  float sum = 0.0f;
  FA2_UNROLL
  for (int i = 0; i < kSinkRows; i += 32) {
    const int row = first + i + ptx::lane_index();
    const int read = row < end ? row : end - 1;
    const float part =
        sink_gradient<Config>(sink, ptx::ld_global_f32(lse + read), ptx::ld_global_f32(delta + read));
    sum += row < end ? part : 0.0f;
  }
  return sum;
}

/// Returns the sum of all threads' values, added in a fixed order.
template <class Config>
FA2_DEVICE float sum_of_block(float sum) {
  FA2_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) sum += ptx::shfl_bfly(sum, distance);
  const SharedAddress sums = ptx::dynamic_shared();
  const SharedAddress of_warp = sums + static_cast<u32>(4 * ptx::warp_index());  // needs all lanes
  if (ptx::lane_index() == 0) ptx::st_shared_u32(of_warp, ptx::bits_of(sum));
  ptx::bar_sync();
  float total = 0.0f;
  for (int warp = 0; warp < Config::warps; warp += 2) {
    float pair[2];
    ptx::ld_shared_f32_x2(sums + static_cast<u32>(4 * warp), pair);
    total += pair[0] + pair[1];
  }
  return total;
}

/// Computes one head's gradient. The block's warps share the queries of one sequence after the other.
template <class Config>
FA2_DEVICE void backward_sinks(const BackwardParams& params) {
  const AttentionParams& attention = params.attention;
  const int head = static_cast<int>(ptx::block_index());
  const float sink = ptx::ld_global_f32(attention.sinks + head) * LseUnit<Config>::of_natural;
  float sum = 0.0f;
  int turn = ptx::warp_index();  // next group of kSinkRows queries, counted from the sequence's first
  for (int batch = 0; batch < attention.sequences.batch; ++batch) {
    const SequenceShape shape = shape_of<Config>(attention, batch);
    const float* const lse = attention.lse + first_statistic<Config>(attention, shape, head);
    const float* const delta = params.delta + first_delta_of(params, shape, {0, head, batch});
    const int turns = (shape.seqlen_q + kSinkRows - 1) / kSinkRows;
    for (; turn < turns; turn += Config::warps)
      sum += sink_gradient_of_rows<Config>(sink, lse, delta, turn * kSinkRows, shape.seqlen_q);
    turn -= turns;
  }
  const float total = sum_of_block<Config>(sum);
  if (ptx::thread_index() == 0) ptx::st_global_f32(params.d_sinks + head, total);
}

}  // namespace fa2
