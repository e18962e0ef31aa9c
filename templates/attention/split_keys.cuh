// Split-KV: parts of a tile, over disjoint keys, by thread blocks that know nothing of one another. Each leaves its normalised
// output and log-sum-exp; whoever ends last merges all of them (FlashAttention-2, section 2.3.1, one block's rescaling by
// another).
#pragma once

#include "attention/epilogue_sm90.cuh"
#include "attention/pipeline_sm90.cuh"
#include "attention/softmax.cuh"
#include "attention/tile_schedule.cuh"
#include "ptx/atomic.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// A warpgroup's rows of a part of a tile.
///
/// A thread block shares its first tile with those before it and its last with those after it, so that it leaves two parts
/// at most: the part of a tile that it begins comes second. A row of a part is its output, float32, and its log-sum-exp, four
/// times.
template <class Config>
struct TilePart {
  static constexpr bool splits = Config::schedule == kSplitKeys;
  static constexpr int warpgroups = Config::warps / 4;
  static constexpr int cols = SharedLayoutSm90<Config>::padded_dim_v;
  static constexpr int stride = cols + 4;  ///< of rows, in floats
  static constexpr float kLog2E = 1.44269504088896341f;

  const AttentionParamsSm90& params;
  const SequenceTile& tile;
  int warpgroup;

  FA2_DEVICE bool is_of_several() const { return splits && tile.part.count > 1; }
  FA2_DEVICE bool is_first() const {
    return !splits || static_cast<int>(ptx::block_index()) == tile.part.first_worker;
  }

  template <int kN, class Softmax>
  FA2_DEVICE void store(const AccumulatorTile<1, kN>& output, const Softmax& softmax) const {
    static_assert(8 * kN == cols, "a row is as wide as the accumulators");
    const int part = static_cast<int>(ptx::block_index()) - tile.part.first_worker;
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = ptx::warp_index() % 4 * 16 + 8 * half + fragment_row();
      if (row >= row_count()) continue;
      float* const to = row_of_part(part, row);
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        const float(&value)[4] = output.value[0][n];
        ptx::st_global_v2(to + 8 * n + fragment_col(), ptx::bits_of(value[2 * half]),
                          ptx::bits_of(value[2 * half + 1]));
      }
      if (fragment_col() != 0) continue;
      const u32 lse = ptx::bits_of(softmax.log_sum_exp(0, half, -ptx::infinity()));
      ptx::st_global_v4(to + cols, ptx::Vector16{{lse, lse, lse, lse}});
    }
    ptx::bar_sync(own_barrier(warpgroup), 128);
  }

  /// After store(): whether all other parts of these rows have been stored, and may be read.
  FA2_DEVICE bool is_last_to_end(const SharedLayoutSm90<Config>& shared) const {
    const u32 others = static_cast<u32>(tile.part.count - 1);
    if (ptx::thread_index() % 128 == 0) {
      u32* const counter = params.counters + tile.part.first_worker * warpgroups + warpgroup;
      ptx::st_shared_u32(shared.parts_before(warpgroup), ptx::atom_inc_acq_rel_global_u32(counter, others));
    }
    ptx::bar_sync(own_barrier(warpgroup), 128);
    const bool is_last = ptx::ld_shared_u32(shared.parts_before(warpgroup)) == others;
    ptx::bar_sync(own_barrier(warpgroup), 128);  // the next tile's comes to the same word
    return is_last;
  }

  /// A warp a row.
  FA2_DEVICE void merge() const {
    for (int row = ptx::warp_index() % 4; row < row_count(); row += 4) merge_row(row);
  }

 private:
  FA2_DEVICE int first_row() const { return tile.at.q_tile * Config::tile_m + 64 * warpgroup; }
  FA2_DEVICE int row_count() const {
    const int left = tile.shape.rows - first_row();
    return left < 64 ? left : 64;
  }

  /// Of the warpgroup's, in the tile's part of that number.
  FA2_DEVICE float* row_of_part(int part, int row) const {
    const i64 slot = 2 * (tile.part.first_worker + part) + (part == 0 ? 1 : 0);
    return params.parts + (slot * params.part_rows + 64 * warpgroup + row) * stride;
  }

  /// A lane looks at the log-sum-exps of every 32nd part, and at four of 128 columns.
  FA2_DEVICE void merge_row(int row) const {
    constexpr int kChunks = (Config::head_dim_v + 127) / 128;
    float largest = -ptx::infinity(), sum = 0.0f, merged[kChunks][4] = {};
    for (int first = 0; first < tile.part.count; first += 32) {
      const int own = first + ptx::lane_index();
      const float lse = own < tile.part.count ? lse_of(own, row) : -ptx::infinity();
      const float before = largest;
      largest = ptx::max_or_nan_f32(largest, over_lanes(lse, ptx::max_or_nan_f32));
      const float weight = weight_of(lse, largest), correction = weight_of(before, largest);
      sum = ptx::fma_rn(sum, correction, over_lanes(weight, [](float a, float b) { return a + b; }));
      FA2_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) merged[c][i] *= correction;
      }
      add_parts(first, row, weight, merged);
    }
    finish_row(first_row() + row, largest, sum, merged);
  }

  FA2_DEVICE float lse_of(int part, int row) const {
    float lse[4];
    ptx::ld_global_v4_f32(row_of_part(part, row) + cols, lse);
    return lse[0];
  }

  /// exp(lse - largest): 0 of a part without a key.
  FA2_DEVICE static float weight_of(float lse, float largest) {
    return lse == -ptx::infinity() ? 0.0f : ptx::ex2_approx((lse - largest) * kLog2E);
  }

  /// The same in every lane.
  template <class Both>
  FA2_DEVICE static float over_lanes(float value, const Both& both) {
    FA2_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) value = both(value, ptx::shfl_bfly(value, distance));
    return value;
  }

  /// 32 parts, or as many as are left, of which each lane has one's weight; some at once, so that their loads wait together.
  template <int kChunks>
  FA2_DEVICE void add_parts(int first, int row, float weight, float (&merged)[kChunks][4]) const {
    constexpr int kAtOnce = 8 / kChunks;
    for (int i = 0; i < 32 && first + i < tile.part.count; i += kAtOnce) {
      float value[kAtOnce][kChunks][4];
      FA2_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int part = first + i + j < tile.part.count ? first + i + j : first + i;
        FA2_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          const int col = column(c);
          ptx::ld_global_v4_f32(row_of_part(part, row) + (col < cols ? col : 0), value[j][c]);
        }
      }
      FA2_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const float of_part = ptx::shfl_idx(weight, i + j);  // 0 beyond the last
        FA2_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          FA2_UNROLL
          for (int k = 0; k < 4; ++k)
            merged[c][k] = ptx::fma_rn(of_part, of_part == 0.0f ? 0.0f : value[j][c][k], merged[c][k]);
        }
      }
    }
  }

  FA2_DEVICE static int column(int chunk) { return 128 * chunk + 4 * ptx::lane_index(); }

  /// `row`: of the sequence.
  template <int kChunks>
  FA2_DEVICE void finish_row(int row, float largest, float sum, const float (&merged)[kChunks][4]) const {
    using Element = typename Config::Element;
    const AttentionParams& attention = params.attention;
    const float factor = sum == 0.0f ? 0.0f : ptx::rcp_rn(sum);
    u16* const to = output_row<Config>(attention, tile.shape, tile.at, row);
    FA2_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      if (column(c) >= Config::head_dim_v) continue;
      const float(&v)[4] = merged[c];
      ptx::st_global_v2(to + column(c), ptx::cvt_rn_x2<Element>(v[0] * factor, v[1] * factor),
                        ptx::cvt_rn_x2<Element>(v[2] * factor, v[3] * factor));
    }
    if (attention.lse == nullptr || ptx::lane_index() != 0) return;
    const float lse = ptx::fma_rn(ptx::lg2_approx(sum), 1.0f / kLog2E, largest);
    ptx::st_global_f32(lse_of_row<Config>(attention, tile.shape, tile.at, row),
                       sum == 0.0f ? attention.empty_row_lse : lse);
  }
};

}  // namespace fa2
