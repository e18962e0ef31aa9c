// Computes P and dS from scores and dP (FlashAttention-2, Algorithm 2, lines 11 to 14).
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/lse_base.cuh"
#include "attention/common/score_mod.cuh"

namespace fa2 {

/// Returns LSE as the exponents of P need it: to base 2. Returns +inf for a row that sees no key, for either
/// infinity.
template <class Config>
FA2_DEVICE float exponent_offset(float lse) {
  return lse == -ptx::infinity() ? ptx::infinity() : lse * LseUnit<Config>::to_log2;
}

/// In place of a Config, where `lse` holds exponent_offset() values.
struct PreparedOffsets;
template <>
FA2_DEVICE float exponent_offset<PreparedOffsets>(float offset) {
  return offset;
}

/// LSE and delta per row, in registers, for tiles whose rows are queries.
template <int kM>
struct RowStatistics {
  float offset[kM][2];  ///< exponent_offset() of LSE
  float delta[kM][2];

  /// Calls f(m, i, offset) for this lane's elements in the eight columns of block n.
  template <class F>
  FA2_DEVICE void for_each_offset(int, const F& f) const {
    visit(offset, f);
  }
  template <class F>
  FA2_DEVICE void for_each_delta(int, const F& f) const {
    visit(delta, f);
  }

 private:
  template <class F>
  FA2_DEVICE static void visit(const float (&of)[kM][2], const F& f) {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) f(m, i, of[m][i / 2]);
    }
  }
};

/// LSE and delta per query, in shared memory, for tiles whose columns are queries. `Config`: the kernel's, or
/// PreparedOffsets.
template <int kM, class Config>
struct ColumnStatistics {
  SharedAddress lse;
  SharedAddress delta;

  template <class F>
  FA2_DEVICE void for_each_offset(int n, const F& f) const {
    visit(
        lse, n, [](float value) { return exponent_offset<Config>(value); }, f);
  }
  template <class F>
  FA2_DEVICE void for_each_delta(int n, const F& f) const {
    visit(
        delta, n, [](float value) { return value; }, f);
  }

 private:
  template <class Of, class F>
  FA2_DEVICE static void visit(SharedAddress of_columns, int n, const Of& of, const F& f) {
    float value[2];
    ptx::ld_shared_f32_x2(of_columns + static_cast<u32>((8 * n + fragment_col()) * 4), value);
    value[0] = of(value[0]);
    value[1] = of(value[1]);
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) f(m, i, value[i % 2]);
    }
  }
};

/// Computes P and dS for a tile of scores and dP = dO V^T. `Statistics`: LSE and delta per row or per column.
template <ScoreTile kTile, class Config, class Visible, class Statistics>
struct ScoreGradients {
  const ScoreMod<Config>& score_mod;
  const Dropout<Config>& dropout;
  const KeyBlocks<Config, Visible>& blocks;
  const Visible& visible;
  const Statistics& statistics;
  int first_row;
  int n;  ///< KV block, or query block if rows are keys

  /// True if gradients need the scores before these become probabilities.
  static constexpr bool needs_scores = Config::softcap || ScoreMod<Config>::has_slope;
  /// True if exponents take raw scores, to which they add the text's bias.
  static constexpr bool adds_in_exponents = ScoreMod<Config>::only_adds;

  /// Replaces raw scores by P, and dP by gradients with respect to raw scores, without the scale. Dropped
  /// probabilities become 0.
  template <int kM, int kN>
  FA2_DEVICE void to_probabilities_and_gradients(AccumulatorTile<kM, kN>& scores,
                                                 AccumulatorTile<kM, kN>& gradients) const {
    if constexpr (Config::dropout && !needs_scores) {
      to_probabilities(scores);
      if constexpr (Config::computes_ds) to_gradients(scores, gradients);
      dropout.drop_marked(scores);
      return;
    }
    if constexpr (Config::computes_ds) {
      dropout.template drop_gradients<kTile>(gradients, first_row, first_col());
      subtract_delta(gradients);
    }
    if constexpr (adds_in_exponents) {
      score_mod.apply_sign(scores);
    } else {
      score_mod.template apply_with_gradients<kTile>(scores, gradients, first_row, first_col());
    }
    hide_by_text(scores);
    hide(scores, -ptx::infinity());
    hide(gradients, 0.0f);
    exponentiate(scores);
    multiply(scores, gradients);
    dropout.template drop<kTile>(scores, first_row, first_col());
  }

  /// First half unless needs_scores: replaces raw scores by P. Dropped probabilities become negative.
  template <int kM, int kN>
  FA2_DEVICE void to_probabilities(AccumulatorTile<kM, kN>& scores) const {
    if constexpr (adds_in_exponents) {
      score_mod.apply_sign(scores);
    } else {
      score_mod.template apply<kTile>(scores, first_row, first_col());
    }
    hide_by_text(scores);
    hide(scores, -ptx::infinity());
    exponentiate(scores);
    dropout.template mark<kTile>(scores, first_row, first_col());
  }

  /// First half if needs_scores: replaces raw scores by P, and stores in `weights` the factors of dP - delta.
  template <int kM, int kN>
  FA2_DEVICE void to_probabilities_and_weights(AccumulatorTile<kM, kN>& scores,
                                               AccumulatorTile<kM, kN>& weights) const {
    for_each_score(weights, [](float& weight) { weight = 1.0f; });
    score_mod.template apply_with_gradients<kTile>(scores, weights, first_row, first_col());
    hide_by_text(scores);
    hide(scores, -ptx::infinity());
    exponentiate(scores);
    multiply(scores, weights);
    dropout.template mark<kTile>(scores, first_row, first_col());
  }

  /// Second half without its final product: replaces dP by dP - delta. The caller must multiply by P or by
  /// the weights. Dropout needs no P here.
  template <int kM, int kN>
  FA2_DEVICE void to_unweighted_gradients(AccumulatorTile<kM, kN>& gradients) const {
    dropout.template drop_gradients<kTile>(gradients, first_row, first_col());
    subtract_delta(gradients);
    hide(gradients, 0.0f);
  }

  /// Second half: replaces dP by gradients with respect to raw scores, without the scale.
  template <int kM, int kN>
  FA2_DEVICE void to_gradients(const AccumulatorTile<kM, kN>& probabilities,
                               AccumulatorTile<kM, kN>& gradients) const {
    if constexpr (Config::dropout) {
      to_gradients_of_marked(probabilities, gradients);
      hide(gradients, 0.0f);
    } else {
      subtract_delta(gradients);
      hide(gradients, 0.0f);
      multiply(probabilities, gradients);
    }
  }

  /// Replaces raw scores by what texts get of them, and dP by gradients with respect to the scores that enter the softmax.
  template <int kM, int kN>
  FA2_DEVICE void to_gradients_of_modified(AccumulatorTile<kM, kN>& scores,
                                           AccumulatorTile<kM, kN>& gradients) const {
    AccumulatorTile<kM, kN> probabilities = scores;
    to_probabilities(probabilities);
    to_unweighted_gradients(gradients);
    for_each_pair(gradients, probabilities, [](float& gradient, float p) { gradient *= ptx::magnitude(p); });
    score_mod.template apply_before_texts<kTile>(scores, first_row, first_col());
  }

 private:
  FA2_DEVICE int first_col() const { return n * Config::tile_n; }

  template <int kM, int kN>
  FA2_DEVICE void hide_by_text(AccumulatorTile<kM, kN>& scores) const {
    score_mod.template hide<kTile>(scores, first_row, first_col(), blocks.shows_all(n));
  }

  template <int kM, int kN>
  FA2_DEVICE void subtract_delta(AccumulatorTile<kM, kN>& gradients) const {
    FA2_UNROLL
    for (int c = 0; c < kN; ++c)
      statistics.for_each_delta(c, [&](int m, int i, float delta) { gradients.value[m][c][i] -= delta; });
  }

  /// Replaces dP by dS = P (Z dP - delta), where Z is 0 if mark() negated P, else dropout's factor.
  template <int kM, int kN>
  FA2_DEVICE void to_gradients_of_marked(const AccumulatorTile<kM, kN>& probabilities,
                                         AccumulatorTile<kM, kN>& gradients) const {
    const float rescale = dropout.params.rescale;
    FA2_UNROLL
    for (int c = 0; c < kN; ++c) {
      statistics.for_each_delta(c, [&](int m, int i, float delta) {
        const float p = probabilities.value[m][c][i];
        float& gradient = gradients.value[m][c][i];
        gradient =
            ptx::fma_rn(ptx::max_or_nan_f32(p, 0.0f) * rescale, gradient, -(ptx::magnitude(p) * delta));
      });
    }
  }

  /// Sets elements to `value` if their query does not see their key: dP may hold NaN there, and 0 * NaN is
  /// NaN.
  template <int kM, int kN>
  FA2_DEVICE void hide(AccumulatorTile<kM, kN>& of, float value) const {
    if (blocks.hides_last_keys(n))
      set_columns_from(of, first_row, first_col(), value, [&](int row) { return visible.visible_end(row); });
    if (blocks.hides_first_keys(n))
      set_columns_before(of, first_row, first_col(), value,
                         [&](int row) { return visible.visible_begin(row); });
  }

  template <int kM, int kN>
  FA2_DEVICE void exponentiate(AccumulatorTile<kM, kN>& scores) const {
    const float scale_log2 = adds_in_exponents ? score_mod.raw_scale_log2() : score_mod.scale_log2();
    FA2_UNROLL
    for (int c = 0; c < kN; ++c) {
      statistics.for_each_offset(c, [&](int m, int i, float offset) {
        float& score = scores.value[m][c][i];
        float add = -offset;
        if constexpr (adds_in_exponents) {
          const int row = first_row + 16 * m + i / 2 * 8 + fragment_row();
          const int col = first_col() + 8 * c + fragment_col() + i % 2;
          add = ptx::fma_rn(score_mod.template bias<kTile>(row, col), score_mod.kLog2E, add);
        }
        score = ptx::ex2_approx(ptx::fma_rn(score, scale_log2, add));
      });
    }
  }

  template <int kM, int kN>
  FA2_DEVICE static void multiply(const AccumulatorTile<kM, kN>& probabilities,
                                  AccumulatorTile<kM, kN>& gradients) {
    for_each_pair(gradients, probabilities, [](float& gradient, float p) { gradient *= p; });
  }
};

template <ScoreTile kTile, class Config, class Visible, class Statistics>
FA2_DEVICE ScoreGradients<kTile, Config, Visible, Statistics> score_gradients(
    const ScoreMod<Config>& score_mod, const Dropout<Config>& dropout,
    const KeyBlocks<Config, Visible>& blocks, const Visible& visible, const Statistics& statistics,
    int first_row, int n) {
  return {score_mod, dropout, blocks, visible, statistics, first_row, n};
}

}  // namespace fa2
