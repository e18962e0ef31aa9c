// Split-KV: parts of a tile, over disjoint keys, by thread blocks that know nothing of one another. Each leaves its normalised
// output and its sum; whoever ends last merges all of them (FlashAttention-2, section 2.3.1, one block's rescaling by
// another).
#pragma once

#include "attention/epilogue_sm90.cuh"
#include "attention/pipeline_sm90.cuh"
#include "attention/softmax.cuh"
#include "attention/tile_schedule.cuh"
#include "ptx/atomic.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/vector8.cuh"

namespace fa2 {

/// A row's sum over a part of the keys: sum * 2^exponent.
struct RowSum {
  RowExponent exponent;
  float sum;
};

/// A warpgroup's rows of a part of a tile.
///
/// A thread block shares its first tile with those before it and its last with those after it, so that it leaves two parts
/// at most: the part of a tile that it begins comes second. With fixed borders all parts of a tile lie with who begins it,
/// apart from those of tiles that it computes alone one after the other. A row of a part is its output, float32, and its RowSum.
template <class Config>
struct TilePart {
  static constexpr bool splits = Config::schedule == kSplitKeys, has_fixed_borders = Config::batch_invariant;
  static constexpr int warpgroups = Config::warps / 4;
  static constexpr int cols = SharedLayoutSm90<Config>::padded_dim_v;
  static constexpr int stride = cols + 4;  ///< of rows, in floats

  const AttentionParamsSm90& params;
  const SequenceTile& tile;
  int warpgroup;

  FA2_DEVICE bool is_of_several() const { return splits && tile.part.count > 1; }
  FA2_DEVICE bool is_first() const { return !splits || index() == 0; }

  template <int kN, class Softmax>
  FA2_DEVICE void store(const AccumulatorTile<1, kN>& output, const Softmax& softmax) const {
    static_assert(8 * kN == cols, "a row is as wide as the accumulators");
    const int part = index();
    const int warp_row = ptx::warp_index() % 4 * 16;
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 8 * half + fragment_row();
      if (row >= row_count()) continue;
      float* const to = row_of_part(part, row);
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        const float(&value)[4] = output.value[0][n];
        ptx::st_global_v2(to + 8 * n + fragment_col(),
                          ptx::Vector8{{ptx::bits_of(value[2 * half]), ptx::bits_of(value[2 * half + 1])}});
      }
      if (fragment_col() != 0) continue;
      const RowExponent exponent = softmax.exponent(0, half);
      ptx::st_global_v4(to + cols, ptx::Vector16{{ptx::bits_of(exponent.score), ptx::bits_of(exponent.log2),
                                                  ptx::bits_of(softmax.row_sum[0][half]), 0}});
    }
    ptx::bar_sync(own_barrier(warpgroup), 128);
  }

  /// After store(): whether all other parts of these rows have been stored, and may be read.
  FA2_DEVICE bool is_last_to_end(const SharedLayoutSm90<Config>& shared) const {
    const u32 others = static_cast<u32>(tile.part.count - 1);
    if (ptx::thread_index() % 128 == 0) {
      u32* const counter = params.counters + place() * warpgroups + warpgroup;
      ptx::st_shared_u32(shared.parts_before(warpgroup), ptx::atom_inc_acq_rel_global_u32(counter, others));
    }
    ptx::bar_sync(own_barrier(warpgroup), 128);
    const int before = static_cast<int>(ptx::ld_shared_u32(shared.parts_before(warpgroup)));
    // Known to be the same in every lane: else nothing after it would be.
    return ptx::shfl_idx(before, 0) == static_cast<int>(others);
  }

  /// A warp a row. `scale_log2`: the softmax's.
  FA2_DEVICE void merge(float scale_log2) const {
    for (int row = ptx::warp_index() % 4; row < row_count(); row += 4) merge_row(row, scale_log2);
    // The next tile's parts come to where these are.
    if constexpr (has_fixed_borders) ptx::bar_sync(own_barrier(warpgroup), 128);
  }

 private:
  /// One that no other tile has at the same time.
  FA2_DEVICE int place() const { return has_fixed_borders ? tile.part.place / kMostParts : tile.part.place; }
  /// Of this part among the tile's.
  FA2_DEVICE int index() const {
    return has_fixed_borders ? tile.part.place % kMostParts
                             : static_cast<int>(ptx::block_index()) - tile.part.place;
  }
  FA2_DEVICE int first_row() const { return tile.at.q_tile * Config::tile_m + 64 * warpgroup; }
  FA2_DEVICE int row_count() const {
    const int left = tile.shape.rows - first_row();
    return left < 64 ? left : 64;
  }

  /// Of the warpgroup's, in the tile's part of that number.
  FA2_DEVICE float* row_of_part(int part, int row) const {
    const i64 slot =
        has_fixed_borders ? place() * kMostParts + part : 2 * (place() + part) + (part == 0 ? 1 : 0);
    return params.parts + (slot * params.part_rows + 64 * warpgroup + row) * stride;
  }

  /// What the parts of a row weigh; the same in every lane.
  struct Weights {
    float scale_log2;
    RowExponent largest{0.0f, -ptx::infinity()};
    float sum = 0.0f;

    FA2_DEVICE float log2_of(const RowSum& part) const {
      return part.sum == 0.0f ? -ptx::infinity()
                              : ptx::fma_rn(part.exponent.score, scale_log2, part.exponent.log2);
    }
    FA2_DEVICE float of(const RowSum& part) const {
      const float score = part.exponent.score - largest.score;
      const float power = ptx::ex2_approx(ptx::fma_rn(score, scale_log2, part.exponent.log2 - largest.log2));
      return part.sum == 0.0f ? 0.0f : part.sum * power;
    }
    FA2_DEVICE float log_sum_exp() const {
      constexpr float kLn2 = 0.693147180559945309f;
      return ptx::fma_rn(largest.score, scale_log2 * kLn2, (ptx::lg2_approx(sum) + largest.log2) * kLn2);
    }
  };

  /// A lane looks at every 32nd part's sum, and at four of 128 columns.
  FA2_DEVICE void merge_row(int row, float scale_log2) const {
    constexpr int kChunks = (Config::head_dim_v + 127) / 128;
    Weights weights{scale_log2};
    float merged[kChunks][4] = {};
    for (int first = 0; first < tile.part.count; first += 32) {
      const RowSum part = sum_of(first, row);
      SomeParts<kChunks> some;
      load(first, row, some);  // which wait with the sums
      const RowExponent before = weights.largest;
      find_largest(part, weights);
      const float correction = weights.sum == 0.0f ? 0.0f : weights.of({before, 1.0f});
      FA2_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        FA2_UNROLL
        for (int k = 0; k < 4; ++k) merged[c][k] *= correction;
      }
      const float weight = weights.of(part);
      const float sum = over_lanes(weight, [](float a, float b) { return a + b; });
      weights.sum = ptx::fma_rn(weights.sum, correction, sum);
      add_parts(first, row, weight, some, merged);
    }
    finish_row(first_row() + row, weights, merged);
  }

  /// Of this lane's part of those from `first` on.
  FA2_DEVICE RowSum sum_of(int first, int row) const {
    const int part = first + ptx::lane_index();
    if (part >= tile.part.count) return {{0.0f, 0.0f}, 0.0f};
    float word[4];
    ptx::ld_global_v4_f32(row_of_part(part, row) + cols, word);
    return {{word[0], word[1]}, word[2]};
  }

  FA2_DEVICE static void find_largest(const RowSum& part, Weights& weights) {
    const float own = weights.log2_of(part), largest = over_lanes(own, ptx::max_f32);
    const float before = ptx::fma_rn(weights.largest.score, weights.scale_log2, weights.largest.log2);
    const int last = 31 - ptx::clz(ptx::vote_ballot(own == largest));
    const RowExponent found{ptx::shfl_idx(part.exponent.score, last),
                            ptx::shfl_idx(part.exponent.log2, last)};
    if (largest > before) weights.largest = found;
  }

  /// The same in every lane.
  template <class Both>
  FA2_DEVICE static float over_lanes(float value, const Both& both) {
    FA2_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) value = both(value, ptx::shfl_bfly(value, distance));
    return value;
  }

  /// A row of neighbouring parts, which are loaded at once.
  template <int kChunks>
  struct SomeParts {
    static constexpr int count = 16 / kChunks;
    float value[count][kChunks][4];
  };

  /// From part `first` on, which there is.
  template <int kChunks>
  FA2_DEVICE void load(int first, int row, SomeParts<kChunks>& parts) const {
    FA2_UNROLL
    for (int j = 0; j < parts.count; ++j) {
      const int part = first + j < tile.part.count ? first + j : first;
      FA2_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const int col = column(c);
        ptx::ld_global_v4_f32(row_of_part(part, row) + (col < cols ? col : 0), parts.value[j][c]);
      }
    }
  }

  /// 32 parts, or as many as are left, of which each lane has one's weight, and the first are being loaded into `some`.
  template <int kChunks>
  FA2_DEVICE void add_parts(int first, int row, float weight, SomeParts<kChunks>& some,
                            float (&merged)[kChunks][4]) const {
    FA2_NO_UNROLL
    for (int i = 0;;) {
      add(i, weight, some, merged);
      i += some.count;
      if (i >= 32 || first + i >= tile.part.count) return;
      load(first + i, row, some);
    }
  }

  /// Those of lanes `begin` on; the others weigh 0.
  template <int kChunks>
  FA2_DEVICE static void add(int begin, float weight, const SomeParts<kChunks>& parts,
                             float (&merged)[kChunks][4]) {
    FA2_UNROLL
    for (int j = 0; j < parts.count; ++j) {
      const float of_part = ptx::shfl_idx(weight, begin + j);
      FA2_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        FA2_UNROLL
        for (int k = 0; k < 4; ++k)
          merged[c][k] = ptx::fma_rn(of_part, of_part == 0.0f ? 0.0f : parts.value[j][c][k], merged[c][k]);
      }
    }
  }

  FA2_DEVICE static int column(int chunk) { return 128 * chunk + 4 * ptx::lane_index(); }

  /// `row`: of the sequence.
  template <int kChunks>
  FA2_DEVICE void finish_row(int row, const Weights& weights, const float (&merged)[kChunks][4]) const {
    using Element = typename Config::Element;
    const AttentionParams& attention = params.attention;
    const float factor = weights.sum == 0.0f ? 0.0f : ptx::rcp_rn(weights.sum);
    u16* const to = output_row<Config>(attention, tile.shape, tile.at, row);
    FA2_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      if (column(c) >= Config::head_dim_v) continue;
      const float(&v)[4] = merged[c];
      ptx::st_global_v2(to + column(c),
                        ptx::Vector8{{ptx::cvt_rn_x2<Element>(v[0] * factor, v[1] * factor),
                                      ptx::cvt_rn_x2<Element>(v[2] * factor, v[3] * factor)}});
    }
    if (attention.lse == nullptr || ptx::lane_index() != 0) return;
    ptx::st_global_f32(lse_of_row<Config>(attention, tile.shape, tile.at, row),
                       weights.sum == 0.0f ? attention.empty_row_lse : weights.log_sum_exp());
  }
};

}  // namespace fa2
