// Products of warps that share query rows, for head dims whose output is too wide for the registers of one.
#pragma once

#include "attention/common/row_warps.cuh"
#include "attention/forward/sm80/query_operand.cuh"
#include "ptx/barrier.cuh"

namespace fa2 {

/// A warp among the Config::column_warps that share rows. Of a KV block each computes the scores of its own keys, and
/// passes them to the others through shared memory. Then each has all scores, takes the same softmax of them, and computes
/// its own columns of the output.
template <class Config>
struct SharedProducts {
  using Format = KeyValueFormat<Config>;
  using Layout = SharedLayout<Config>;
  static constexpr int m_tiles = QueryOperand<Config>::m_tiles;
  static constexpr int sharers = Config::column_warps;
  /// Keys per warp: whole blocks of ldmatrix. Of a small KV block the first warps compute all scores.
  static constexpr int own_keys = Config::tile_n > 16 * sharers ? Config::tile_n / sharers : 16;
  /// Columns per warp: whole blocks of ldmatrix.
  static constexpr int block_cols = are_bytes<Config> ? 32 : 16;
  static constexpr int cols =
      (Layout::padded_dim_v + block_cols * sharers - 1) / (block_cols * sharers) * block_cols;
  using Scores = AccumulatorTile<m_tiles, Config::tile_n / 8>;
  using Output = typename Format::template Output<m_tiles, cols / 8>;
  /// Bytes of the scores of the block.
  static constexpr int bytes = Config::tile_m * Config::tile_n * 4;

  static_assert(Config::tile_n % own_keys == 0 && own_keys % 16 == 0, "an ldmatrix.x4 reads 16 keys");

  SharedAddress scores;  ///< of the rows that the warp shares
  int rows;              ///< number of these rows among those of the block
  int number;            ///< of the warp among those that share them

  FA2_DEVICE static SharedProducts of_warp(int warp, SharedAddress scores) {
    const int rows = warp / sharers;
    return {scores + static_cast<u32>(rows * (bytes / Config::warps)), rows, warp % sharers};
  }
  FA2_DEVICE int first_row() const { return rows * 16 * m_tiles; }
  FA2_DEVICE int first_col() const { return number * cols; }

  /// Computes S = Q K^T. A barrier of the whole block must lie between two calls, or others may still read the scores of the
  /// last block.
  template <class Keys>
  FA2_DEVICE void add_scores(Scores& all, const QueryOperand<Config>& q, Keys keys) const {
    if (number * own_keys < Config::tile_n)
      share_scores(q, TileRows<Keys, own_keys>{keys, number * own_keys});
    ptx::bar_sync(1 + rows, 32 * sharers);
    for_each_four(all, [&](float(&four)[4], int block) { ptx::ld_shared_v4_f32(address(block), four); });
  }

  /// Computes the warp's columns of O += P V.
  template <class Values>
  FA2_DEVICE void add_values(Output& output, const Scores& probabilities, Values values) const {
    if constexpr (are_latent_rows<Config>) {
      add_latent_values<BFloat16, Config::converts_e4m3>(output, probabilities, values, first_col());
    } else {
      constexpr int kPerWord = are_bytes<Config> ? 2 : 1;  // columns of a 16-bit word
      constexpr bool kExist = cols * sharers == Layout::padded_dim_v;
      using Own = TileColumns<Values, cols / kPerWord, Layout::padded_dim_v / kPerWord, kExist>;
      fa2::add_values<Config>(output, probabilities, Own{values, first_col() / kPerWord});
    }
  }

 private:
  /// Computes the scores of the warp's keys, and stores them for the others.
  template <class Keys>
  FA2_DEVICE void share_scores(const QueryOperand<Config>& q, Keys keys) const {
    // Two sums, because a product waits for the one before it that adds to the same sum.
    AccumulatorTile<m_tiles, own_keys / 8> own, other;
    own.clear(), other.clear();
    fa2::add_scores<Config>(
        q, keys, [&](int i) -> auto& { return i % 2 == 0 ? own : other; });
    for_each_pair(own, other, [](float& sum, float more) { sum += more; });
    q.unscale(own);
    for_each_four(own, [&](const float(&four)[4], int block) {
      const int m = block / (own_keys / 8), n = block % (own_keys / 8) + number * (own_keys / 8);
      ptx::st_shared_v4(
          address(m * (Config::tile_n / 8) + n),
          {{ptx::bits_of(four[0]), ptx::bits_of(four[1]), ptx::bits_of(four[2]), ptx::bits_of(four[3])}});
    });
  }

  /// Returns where the lane's part of a 16 x 8 block of scores lies.
  FA2_DEVICE SharedAddress address(int block) const {
    return scores + static_cast<u32>((block * 32 + ptx::lane_index()) * 16);
  }
};

}  // namespace fa2
