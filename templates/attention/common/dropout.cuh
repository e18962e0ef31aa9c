// Dropout: which probabilities are left out, a function of where they stand alone, whoever computes them.
#pragma once

#include "attention/common/params.cuh"
#include "attention/common/philox.cuh"
#include "attention/common/score_tile.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The numbers of one query head. A probability is dropped where its number is below the threshold.
///
/// One call of Philox gives eight: in a block of 16 x 16 those of the queries q and q + 8 and the keys k, k + 1, k + 8 and
/// k + 9, q below 8 and k even. A lane of mma's accumulators has them all where rows are queries. Where rows are keys it has
/// half of two calls; it makes one, and another lane the other.
///
/// A word is two numbers: itself, and itself with its halves exchanged. Each has 32 bits; that the two depend on each other
/// shows where a half equals the threshold's, once in 2^16.
template <class Config>
struct Dropout {
  static constexpr int kRounds = 7;

  const DropoutParams& params;
  u32 stream[2];  ///< upper half of Philox's counter

  /// `head`: batch * heads + query head.
  FA2_DEVICE Dropout of_head(int head) const {
    return {params, {stream[0] + static_cast<u32>(head), stream[1]}};
  }

  /// The words of queries q and q + 8 (word % 2) and keys k and k + 1 (word / 2), and with halves exchanged k + 8 and k + 9;
  /// q is number `query` of those whose fourth bit is 0, and k / 2 number `key`.
  FA2_DEVICE PhiloxWords words(int query, int key) const {
    return philox<kRounds>({{static_cast<u32>(query), static_cast<u32>(key), stream[0], stream[1]}}, 0, 0);
  }
  FA2_DEVICE static u32 exchanged(u32 word) { return word << 16 | word >> 16; }

  /// Probabilities become 0 where they are dropped.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void drop(AccumulatorTile<kM, kN>& probabilities, int first_row, int first_col) const {
    if constexpr (Config::dropout)
      for_each_number<kTile>(probabilities, first_row, first_col, [&](float& p, u32 number) {
        if (number < params.threshold) p = 0.0f;
      });
  }

  /// They become negative, so that the gradients can tell.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void mark(AccumulatorTile<kM, kN>& probabilities, int first_row, int first_col) const {
    if constexpr (Config::dropout)
      for_each_number<kTile>(probabilities, first_row, first_col, [&](float& p, u32 number) {
        if (number < params.threshold) p = -p;
      });
  }
  template <int kM, int kN>
  FA2_DEVICE void drop_marked(AccumulatorTile<kM, kN>& probabilities) const {
    if constexpr (Config::dropout)
      for_each_score(probabilities, [](float& p) { p = ptx::max_or_nan_f32(p, 0.0f); });
  }

  /// dP of dropped probabilities, of whose values it is the gradient.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void drop_gradients(AccumulatorTile<kM, kN>& gradients, int first_row, int first_col) const {
    drop<kTile>(gradients, first_row, first_col);
    rescale(gradients);
  }

  /// Divides sums of what was kept by how much that is on average.
  template <int kM, int kN>
  FA2_DEVICE void rescale(AccumulatorTile<kM, kN>& sums) const {
    if constexpr (Config::dropout) for_each_score(sums, [&](float& sum) { sum *= params.rescale; });
  }

 private:
  /// Calls f(score, number) of every score.
  template <ScoreTile kTile, int kM, int kN, class F>
  FA2_DEVICE void for_each_number(AccumulatorTile<kM, kN>& tile, int first_row, int first_col,
                                  const F& f) const {
    static_assert(kN % 2 == 0, "words are of blocks of 16 columns");
    constexpr bool rows_are_queries = kTile == ScoreTile::queries_by_keys;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int n = 0; n < kN; n += 2) {
        u32 word[2][2];  // [column in a pair][the other place of a query]
        words_of_block<kTile>(word, first_row + 16 * m, first_col + 8 * n);
        FA2_UNROLL
        for (int i = 0; i < 8; ++i) {
          const int right = i / 4, below = i / 2 % 2;  // by 8 columns, by 8 rows
          const u32 of_pair = word[i % 2][rows_are_queries ? below : right];
          f(tile.value[m][n + right][i % 4],
            (rows_are_queries ? right : below) ? exchanged(of_pair) : of_pair);
        }
      }
    }
  }

  /// Of the block of 16 x 16 that begins with this row and column.
  template <ScoreTile kTile>
  FA2_DEVICE void words_of_block(u32 (&word)[2][2], int first_row, int first_col) const {
    const int lane = ptx::lane_index();
    if constexpr (kTile == ScoreTile::queries_by_keys) {
      const PhiloxWords own = words(first_row / 2 + lane / 4, first_col / 4 + lane % 4);
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) word[i / 2][i % 2] = own.word[i];
    } else {
      // Its two columns are queries with a call each. The lane whose row is the key beside this one's shares both.
      const bool odd = lane / 4 % 2 != 0;
      const PhiloxWords own = words(first_col / 2 + lane % 4 * 2 + odd, first_row / 4 + lane / 8);
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const u32 kept = odd ? own.word[2 + half] : own.word[half];
        const u32 given = odd ? own.word[half] : own.word[2 + half];
        const u32 taken = ptx::shfl_bfly(given, 4);
        word[0][half] = odd ? taken : kept;
        word[1][half] = odd ? kept : taken;
      }
    }
  }
};

/// Of the launch: its seed and offset are hashed once, on the device if it is there that they lie.
template <class Config>
FA2_DEVICE Dropout<Config> dropout_of(const AttentionParams& params) {
  Dropout<Config> dropout{params.dropout, {0, 0}};
  if constexpr (Config::dropout) {
    dropout.stream[0] = params.dropout.stream[0];
    dropout.stream[1] = params.dropout.stream[1];
    if (params.dropout.state != nullptr) {
      u32 state[4];
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) state[i] = static_cast<u32>(ptx::ld_global_s32(params.dropout.state + i));
      const PhiloxWords hashed = philox<10>({{state[2], state[3], 0, 0}}, state[0], state[1]);
      dropout.stream[0] = hashed.word[0];
      dropout.stream[1] = hashed.word[1];
    }
  }
  return dropout;
}

/// What dV is multiplied by in the end.
template <class Config>
FA2_DEVICE float value_gradient_scale(const AttentionParams& params) {
  return Config::dropout ? params.dropout.rescale : 1.0f;
}

}  // namespace fa2
