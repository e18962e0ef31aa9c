// Merging partial outputs over disjoint keys (FlashAttention-2, section 2.3.1).
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/common/softmax.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/vector8.cuh"
#include "tile/put_rows.cuh"

namespace fa2 {

/// A row's sum of probabilities over some of the keys: sum * 2^exponent.
struct RowSum {
  RowExponent exponent;
  float sum;
};

/// One row of a partial output, in global or shared memory: float32, normalised, followed by its RowSum.
struct GlobalPartRow {
  float* to;
  FA2_DEVICE GlobalPartRow from_column(int col) const { return {to + col}; }
  FA2_DEVICE void put(int col, const ptx::Vector8& value) const { ptx::st_global_v2(to + col, value); }
  FA2_DEVICE void put(int col, const ptx::Vector16& value) const { ptx::st_global_v4(to + col, value); }
  FA2_DEVICE void load(int col, float (&value)[4]) const { ptx::ld_global_v4_f32(to + col, value); }
};
struct SharedPartRow {
  SharedAddress to;
  FA2_DEVICE SharedPartRow from_column(int col) const { return {at(col)}; }
  FA2_DEVICE void put(int col, const ptx::Vector8& value) const { ptx::st_shared_v2(at(col), value); }
  FA2_DEVICE void put(int col, const ptx::Vector16& value) const { ptx::st_shared_v4(at(col), value); }
  FA2_DEVICE void load(int col, float (&value)[4]) const { ptx::ld_shared_v4_f32(at(col), value); }

 private:
  FA2_DEVICE SharedAddress at(int col) const { return to + static_cast<u32>(4 * col); }
};

template <class Config>
struct PartRow {
  static constexpr int cols = (Config::head_dim_v + 15) / 16 * 16;
  static constexpr int stride = cols + 4;  ///< distance between rows; floats

  template <class Row>
  FA2_DEVICE static void put_sum(const Row& row, const RowSum& sum) {
    row.put(cols, ptx::Vector16{{ptx::bits_of(sum.exponent.score), ptx::bits_of(sum.exponent.log2),
                                 ptx::bits_of(sum.sum), 0}});
  }

  /// Stores a warp's rows, which begin with the partial output's `first_row`, and those of its columns that exist,
  /// from `first_col` on. row(number) returns one row's address.
  template <class Output, class Softmax, class Row>
  FA2_DEVICE static void store(const Output& output, const Softmax& softmax, int first_row, int row_count,
                               const Row& row, int first_col = 0) {
    FA2_UNROLL
    for (int m = 0; m < Output::m_tiles; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int number = first_row + 16 * m + 8 * half + fragment_row();
        if (number >= row_count) continue;
        const auto to = row(number);
        put_row<cols>(to, output, m, half, first_col);
        if (fragment_col() == 0 && first_col == 0)
          put_sum(to, {softmax.exponent(m, half), softmax.row_sum[m][half]});
      }
    }
  }
};

constexpr int kFewParts = 8, kFewOfWide = 4;
/// Lanes that merge a row of up to kFewParts parts. Fewer merge more rows at once, but each needs more registers:
/// wide rows leave few, and page tables and a bias take some. Of up to kFewOfWide parts of rows beyond 256 columns, lanes exchange
/// nothing.
template <class Config>
constexpr int lanes_for_few_parts =
    Config::head_dim_v <= 128                                               ? 8
    : Config::head_dim_v <= 256 && Config::page_size == 0 && !Config::alibi ? 16
                                                                            : 32;
/// Lanes that merge a row of more parts.
template <class Config>
constexpr int lanes_for_many_parts = Config::head_dim_v <= 64 ? 16 : 32;

/// A row that kLanes neighbouring lanes merge, while the warp's others merge other rows of as many parts. Each
/// lane holds the sum of every kLanes-th part, and four of each 4 kLanes columns. At most kTogether parts are
/// loaded together. `Parts` provides `count`, row(part) and from_column(), which moves the beginning of rows.
template <class Config, int kLanes, int kTogether = kLanes>
struct MergedRow {
  static constexpr int cols = PartRow<Config>::cols;
  static constexpr int chunks = (Config::head_dim_v + 4 * kLanes - 1) / (4 * kLanes);
  static constexpr int fitting = chunks * kLanes <= 32   ? kLanes
                                 : chunks * kLanes <= 64 ? kLanes / 2
                                                         : kLanes / 4;  ///< parts whose values fit registers
  static constexpr int at_once = kTogether < fitting ? kTogether : fitting;
  static constexpr int rows_of_warp = 32 / kLanes;
  static constexpr bool is_wide = kLanes == 32 && chunks > 2;

  /// Returns this lane's row among those of the warp.
  FA2_DEVICE static int number() { return ptx::lane_index() / kLanes; }

  float scale_log2;  ///< as in OnlineSoftmax
  RowExponent largest{0.0f, -ptx::infinity()};
  float sum = 0.0f;
  float output[chunks][4] = {};  ///< not yet divided by `sum`

  template <class Parts>
  FA2_DEVICE void add(const Parts& parts) {
    if constexpr (is_wide) {
      if (parts.count <= kFewOfWide) return add_few(parts);
    }
    for (int first = 0; first < parts.count; first += kLanes) {
      const RowSum part = sum_of(parts, first + lane());
      SomeParts<at_once> some = {};
      load(parts, first, some);  // early, so that these loads overlap those of the sums
      const RowExponent before = largest;
      find_largest(part);
      const float correction = sum == 0.0f ? 0.0f : weight_of({before, 1.0f});
      for_each_column([&](int c, int k) { output[c][k] *= correction; });
      const float weight = weight_of(part);
      sum = ptx::fma_rn(sum, correction, over_lanes(weight, [](float a, float b) { return a + b; }));
      add_parts(parts, first, weight, some);
    }
  }

  /// Stores the merged row as a partial output.
  template <class Row>
  FA2_DEVICE void store_as_part(const Row& row) const {
    const float factor = sum == 0.0f ? 0.0f : ptx::rcp_rn(sum);
    FA2_UNROLL
    for (int c = 0; c < chunks; ++c) {
      const float(&v)[4] = output[c];
      if (column(c) < cols)
        row.put(column(c), ptx::Vector16{{ptx::bits_of(v[0] * factor), ptx::bits_of(v[1] * factor),
                                          ptx::bits_of(v[2] * factor), ptx::bits_of(v[3] * factor)}});
    }
    if (lane() == 0) PartRow<Config>::put_sum(row, {largest, sum});
  }

  /// Stores the merged row of O and its LSE, unless it is empty. `row` counts the sequence's rows.
  FA2_DEVICE void finish(const AttentionParams& params, const SequenceShape& shape, const TileCoordinates& at,
                         int row) const {
    if (!row_map_of<Config>(params).is_filled(row)) return;
    const float factor = sum == 0.0f ? 0.0f : ptx::rcp_rn(sum);
    const auto to = output_row<Config>(params, shape, at, row);
    FA2_UNROLL
    for (int c = 0; c < chunks; ++c) {
      const float(&v)[4] = output[c];
      if (column(c) < Config::head_dim_v)
        store_four<Config>(to + column(c), {v[0] * factor, v[1] * factor, v[2] * factor, v[3] * factor});
    }
    if (params.lse == nullptr || lane() != 0) return;
    ptx::st_global_f32(lse_of_row<Config>(params, shape, at, row),
                       sum == 0.0f ? params.empty_row_lse : log_sum_exp());
  }

 private:
  FA2_DEVICE static int lane() { return ptx::lane_index() % kLanes; }
  FA2_DEVICE static int first_lane() { return ptx::lane_index() - lane(); }
  FA2_DEVICE static int column(int chunk) { return 4 * (kLanes * chunk + lane()); }

  template <class F>
  FA2_DEVICE static void for_each_column(const F& f) {
    FA2_UNROLL
    for (int c = 0; c < chunks; ++c) {
      FA2_UNROLL
      for (int k = 0; k < 4; ++k) f(c, k);
    }
  }

  // Returns log2 of a partial sum.
  FA2_DEVICE float log2_of(const RowSum& part) const {
    return part.sum == 0.0f ? -ptx::infinity()
                            : ptx::fma_rn(part.exponent.score, scale_log2, part.exponent.log2);
  }
  /// Returns a partial sum in units of 2^largest.
  FA2_DEVICE float weight_of(const RowSum& part) const {
    const float score = part.exponent.score - largest.score;
    const float power = ptx::ex2_approx(ptx::fma_rn(score, scale_log2, part.exponent.log2 - largest.log2));
    return part.sum == 0.0f ? 0.0f : part.sum * power;
  }
  FA2_DEVICE float log_sum_exp() const {
    constexpr float kUnit = LseUnit<Config>::of_log2;
    return ptx::fma_rn(largest.score, scale_log2 * kUnit, (ptx::lg2_approx(sum) + largest.log2) * kUnit);
  }

  /// Raises `largest` to the largest exponent in any of the row's lanes. Equal in all of them.
  FA2_DEVICE void find_largest(const RowSum& part) {
    const float own = log2_of(part), most = over_lanes(own, ptx::max_f32);
    const float before = ptx::fma_rn(largest.score, scale_log2, largest.log2);
    const u32 lanes = (~0u >> (32 - kLanes)) << first_lane();
    const int last = 31 - ptx::clz(ptx::vote_ballot(own == most) & lanes);
    const RowExponent found{ptx::shfl_idx(part.exponent.score, last),
                            ptx::shfl_idx(part.exponent.log2, last)};
    if (most > before) largest = found;
  }

  /// Reduces the values of the row's lanes with both(a, b). The result is equal in all of them.
  template <class Both>
  FA2_DEVICE static float over_lanes(float value, const Both& both) {
    FA2_UNROLL
    for (int distance = 1; distance < kLanes; distance *= 2)
      value = both(value, ptx::shfl_bfly(value, distance));
    return value;
  }

  /// Returns the sum of a part; 0 if there is none.
  template <class Parts>
  FA2_DEVICE static RowSum sum_of(const Parts& parts, int part) {
    if (part >= parts.count) return {{0.0f, 0.0f}, 0.0f};
    float word[4];
    parts.row(part).load(cols, word);
    return {{word[0], word[1]}, word[2]};
  }

  /// Consecutive parts that are loaded together.
  template <int kCount>
  struct SomeParts {
    float value[kCount][chunks][4];
  };

  /// Adds the parts of a wide row. Each lane reads all sums, so that none waits for another.
  template <class Parts>
  FA2_DEVICE void add_few(const Parts& parts) {
    RowSum part[kFewOfWide];
    FA2_UNROLL
    for (int j = 0; j < kFewOfWide; ++j) part[j] = sum_of(parts, j);
    SomeParts<kFewOfWide> some = {};
    load(parts, 0, some);
    float most = -ptx::infinity();
    FA2_UNROLL
    for (int j = 0; j < kFewOfWide; ++j) {
      if (log2_of(part[j]) > most) {
        most = log2_of(part[j]);
        largest = part[j].exponent;
      }
    }
    FA2_UNROLL
    for (int j = 0; j < kFewOfWide; ++j) {
      const float weight = weight_of(part[j]);
      sum += weight;
      add_part(weight, some.value[j]);
    }
  }

  /// Loads those parts that exist, from `first` on.
  template <class Parts, int kCount>
  FA2_DEVICE static void load(const Parts& parts, int first, SomeParts<kCount>& some) {
    // The lane's column is part of the address, so that chunks differ by constants.
    const Parts of_lane = parts.from_column(column(0) < cols ? column(0) : 0);
    FA2_UNROLL
    for (int j = 0; j < kCount; ++j) {
      if (first + j >= parts.count) continue;
      const auto row = of_lane.row(first + j);
      FA2_UNROLL
      for (int c = 0; c < chunks; ++c) row.load(column(c) < cols ? 4 * kLanes * c : 0, some.value[j][c]);
    }
  }

  /// Adds up to kLanes parts. Each lane holds one weight, and `some` must already receive the first parts.
  template <class Parts>
  FA2_DEVICE void add_parts(const Parts& parts, int first, float weight, SomeParts<at_once>& some) {
    FA2_NO_UNROLL
    for (int i = 0;;) {
      add(i, weight, some);
      i += at_once;
      if (i >= kLanes || first + i >= parts.count) return;
      load(parts, first + i, some);
    }
  }

  /// Adds the parts whose weights are in lanes from `begin` on. Parts that do not exist weigh 0, and are not read.
  FA2_DEVICE void add(int begin, float weight, const SomeParts<at_once>& some) {
    FA2_UNROLL
    for (int j = 0; j < at_once; ++j)
      add_part(ptx::shfl_idx(weight, first_lane() + begin + j), some.value[j]);
  }

  FA2_DEVICE void add_part(float weight, const float (&value)[chunks][4]) {
    if (weight == 0.0f) return;
    for_each_column([&](int c, int k) { output[c][k] = ptx::fma_rn(weight, value[c][k], output[c][k]); });
  }
};

}  // namespace fa2
