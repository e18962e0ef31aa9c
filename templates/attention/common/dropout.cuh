// Dropout: the position of a probability alone decides whether it is dropped, so all kernels agree.
#pragma once

#include "attention/common/philox.cuh"
#include "attention/common/score_tile.cuh"
#include "attention/common/sequence.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The positions of queries, as dropout counts them.
template <class Config, bool kHasPieces = Config::query_pieces>
struct DropoutPositions {
  FA2_DEVICE static DropoutPositions of_sequence(const SequenceShape&) { return {}; }
  FA2_DEVICE int of(int query) const { return query; }
};
template <class Config>
struct DropoutPositions<Config, true> : QueryPositions {
  FA2_DEVICE static DropoutPositions of_sequence(const SequenceShape& shape) { return {shape.positions}; }
};

/// The random numbers of one query head. A probability is dropped if its number is below the threshold.
///
/// One Philox call yields eight numbers. In a block of 16 x 16 they belong to queries q and q + 8 and keys k,
/// k + 1, k + 8 and k + 9, for q below 8 and even k.
/// If rows are queries, a lane's mma accumulators need all eight. If rows are keys, a lane needs half of two
/// calls: it makes one of them and exchanges halves with another lane.
///
/// Each word serves as two 32-bit numbers: itself, and itself with its halves exchanged. The two are
/// correlated only if a half equals the threshold's half, once in 2^16.
template <class Config>
struct Dropout {
  static constexpr int kRounds = 7;

  const DropoutParams& params;
  u32 stream[2];  ///< upper half of Philox's counter; two words
  DropoutPositions<Config> positions{};

  /// Returns the numbers of one head of a sequence. `head`: batch * heads + query head.
  FA2_DEVICE Dropout of_head(const SequenceShape& shape, int head) const {
    return {params,
            {stream[0] + static_cast<u32>(head), stream[1]},
            DropoutPositions<Config>::of_sequence(shape)};
  }

  /// Returns four words. Word i belongs to query q + 8 * (i % 2) and key k + i / 2; with its halves
  /// exchanged, to key k + 8 + i / 2. `query` is the index of q among queries with bit 3 clear, `key` the
  /// index of k among even keys with bit 3 clear.
  FA2_DEVICE PhiloxWords words(int query, int key) const {
    return philox<kRounds>({{static_cast<u32>(query), static_cast<u32>(key), stream[0], stream[1]}}, 0, 0);
  }
  FA2_DEVICE static u32 exchanged(u32 word) { return word << 16 | word >> 16; }

  /// Sets dropped probabilities to 0.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void drop(AccumulatorTile<kM, kN>& probabilities, int first_row, int first_col) const {
    if constexpr (Config::dropout)
      for_each_number<kTile>(probabilities, first_row, first_col, [&](float& p, u32 number) {
        if (number < params.threshold) p = 0.0f;
      });
  }

  /// Negates dropped probabilities, so that the gradients can tell them from kept ones.
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

  /// Turns the gradients of the probabilities after dropout into those before it.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void drop_gradients(AccumulatorTile<kM, kN>& gradients, int first_row, int first_col) const {
    drop<kTile>(gradients, first_row, first_col);
    rescale(gradients);
  }

  /// Multiplies sums over kept probabilities by 1 / (the fraction that dropout keeps).
  template <int kM, int kN>
  FA2_DEVICE void rescale(AccumulatorTile<kM, kN>& sums) const {
    if constexpr (Config::dropout) for_each_score(sums, [&](float& sum) { sum *= params.rescale; });
  }

 private:
  /// Calls f(score, number) for every score and its random number.
  template <ScoreTile kTile, int kM, int kN, class F>
  FA2_DEVICE void for_each_number(AccumulatorTile<kM, kN>& tile, int first_row, int first_col,
                                  const F& f) const {
    static_assert(kN % 2 == 0, "words are of blocks of 16 columns");
    constexpr bool rows_are_queries = kTile == ScoreTile::queries_by_keys;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int n = 0; n < kN; n += 2) {
        u32 word[2][2];  // [column in a pair][query, or query + 8]
        words_of_block<kTile>(word, first_row + 16 * m, first_col + 8 * n);
        FA2_UNROLL
        for (int i = 0; i < 8; ++i) {
          const int right = i / 4, below = i / 2 % 2;  // 8 columns further, 8 rows further
          const u32 of_pair = word[i % 2][rows_are_queries ? below : right];
          f(tile.value[m][n + right][i % 4],
            (rows_are_queries ? right : below) ? exchanged(of_pair) : of_pair);
        }
      }
    }
  }

  /// Computes this lane's words for the 16 x 16 block that begins at this row and column. Its queries have one piece, because
  /// pieces are multiples of 16.
  template <ScoreTile kTile>
  FA2_DEVICE void words_of_block(u32 (&word)[2][2], int first_row, int first_col) const {
    const int lane = ptx::lane_index();
    if constexpr (kTile == ScoreTile::queries_by_keys) {
      const PhiloxWords own = words(positions.of(first_row) / 2 + lane / 4, first_col / 4 + lane % 4);
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) word[i / 2][i % 2] = own.word[i];
    } else {
      // The lane's two columns are queries, each with a call of its own. The lane that holds the pair's other
      // key makes one call, and both lanes share the results.
      const bool odd = lane / 4 % 2 != 0;
      const PhiloxWords own =
          words(positions.of(first_col) / 2 + lane % 4 * 2 + odd, first_row / 4 + lane / 8);
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

/// Returns the launch's random numbers. If seed and offset lie in device memory, hashes them into a stream
/// first; otherwise the host has done so.
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

/// Returns the factor by which the sums for dV must be multiplied.
template <class Config>
FA2_DEVICE float value_gradient_scale(const AttentionParams& params) {
  return Config::dropout ? params.dropout.rescale : 1.0f;
}

}  // namespace fa2
