// Score modification between Q K^T and the softmax.
#pragma once

#include "attention/common/alibi.cuh"
#include "attention/common/kv_type.cuh"
#include "attention/common/score_text.cuh"
#include "attention/common/score_tile.cuh"
#include "attention/common/softcap.cuh"

namespace fa2 {

/// The scale of scores, for exponents of base 2.
template <class Config, bool kFolds = folds_key_factor<Config>>
struct ScoreScale {
  FA2_DEVICE static ScoreScale of(const AttentionParams&, const TileCoordinates&) { return {}; }
  FA2_DEVICE float log2(const AttentionParams& params) const { return params.scale_log2; }
  FA2_DEVICE bool is_negative(const AttentionParams& params) const { return params.scale < 0.0f; }
};
/// The scale times the keys' factor. As without one, its magnitude is at least the smallest normal number.
template <class Config>
struct ScoreScale<Config, true> {
  float magnitude;
  bool negative;

  FA2_DEVICE static ScoreScale of(const AttentionParams& params, const TileCoordinates& at) {
    constexpr float kLeast = 0x1p-126f;
    const float factor = factor_of(params.k_descale, at.batch, at.head / params.queries_per_kv);
    const float scale = params.scale_log2 * ptx::magnitude(factor);
    return {scale < kLeast ? kLeast : scale, (params.scale < 0.0f) != (factor < 0.0f)};
  }
  FA2_DEVICE float log2(const AttentionParams&) const { return magnitude; }
  FA2_DEVICE bool is_negative(const AttentionParams&) const { return negative; }
};

/// The positions of a tile's scores, as texts see them.
template <class Config>
struct ScorePositions {
  const AttentionParams& params;
  const SequenceShape& shape;
  const TileCoordinates& at;

  /// Returns a function that returns the position of a key's score in a row of queries.
  FA2_DEVICE auto in_row(int row) const {
    // Heads do not share tiles for which there are tiles of a capture.
    constexpr bool kPacks = Config::score_tiles == 0;
    const int heads = params.heads_q * params.packing.heads;
    const int head = ptx::position_in(kPacks ? query_head<Config>(params, at, row) : at.head, heads);
    const int number = ptx::position_in(kPacks ? row_map_of<Config>(params).query(row) : row, shape.seqlen_q);
    const int query = Config::query_pieces ? shape.positions.of(number) : number;
    const int queries = Config::query_pieces ? shape.seqlen_k : shape.seqlen_q;
    return [batch = at.batch, head, query, queries, keys = shape.seqlen_k](int key) {
      return score::Position{batch, head, query, ptx::position_in(key, keys), queries, keys};
    };
  }
};

/// Modifies the scores of one tile: softcap, ALiBi and the texts of fa2/score_text.h.
template <class Config>
struct ScoreMod {
  using Text = score::Text;
  using Position = score::Position;
  /// Whether a text changes scores, which must be scaled.
  static constexpr bool modifies = Config::score_text && (Text::has_bias || Text::has_mod);
  /// Whether a text hides scores.
  static constexpr bool hides = Config::score_text && Text::has_mask;
  /// Whether apply_with_gradients() needs derivatives of modified().
  static constexpr bool has_slope = modifies && Text::has_mod;
  static_assert(!(modifies && folds_key_factor<Config>), "what modifies scores wants them scaled");
  /// Whether texts only add to scores, and nothing else changes these.
  static constexpr bool only_adds = modifies && !Text::has_mod && !Config::softcap && !Config::alibi;
  /// True if Exponents replace apply() where the text of a mask shows all keys, except in the search for the maximum. Largest scores
  /// need apply().
  static constexpr bool fused =
      !Config::max_logits && (modifies ? only_adds : Config::softcap || Config::alibi);
  static constexpr float kLog2E = 1.44269504088896341f;

  const AttentionParams& params;
  SequenceShape shape;
  TileCoordinates at;
  Alibi<Config> alibi;
  ScoreScale<Config> scale;
  Text text;

  FA2_DEVICE Softcap softcap() const { return {params.softcap}; }

  /// Returns the factor with which 2^(x * factor) is the exponential of a score x that apply() has modified.
  FA2_DEVICE float scale_log2() const { return Config::alibi || modifies ? kLog2E : scale.log2(params); }

  /// Returns the factor of raw scores after apply_sign(), before a bias.
  FA2_DEVICE float raw_scale_log2() const { return scale.log2(params); }

  /// Returns what the text adds to a score.
  template <ScoreTile kTile>
  FA2_DEVICE float bias(int row, int col) const {
    return text.bias(position_of<kTile>(row, col));
  }

  /// Returns the modified score. `score` is scaled, after softcap and ALiBi.
  FA2_DEVICE float modified(float score, const Position& position) const {
    if constexpr (Text::has_bias) score += text.bias(position);
    if constexpr (Text::has_mod) score = text.mod(score, position);
    return score;
  }

  /// Returns d modified() / d score for the same `score`; 0 where the text hides a score, whose slope need not be a number.
  FA2_DEVICE float derivative(float score, const Position& position) const {
    if constexpr (Text::has_bias) score += text.bias(position);
    if constexpr (Text::has_mod_slope) {
      return text.mod(score, position) == -ptx::infinity() ? 0.0f : text.mod_slope(score, position);
    } else {
      const score::Dual modified = text.mod(score::Dual{score, 1.0f}, position);
      return modified.value == -ptx::infinity() ? 0.0f : modified.slope;
    }
  }

  FA2_DEVICE ScorePositions<Config> positions() const { return {params, shape, at}; }

  /// Returns whether apply() changes scores.
  FA2_DEVICE bool changes_scores() const {
    return Config::softcap || Config::alibi || modifies || scale.is_negative(params);
  }

  /// Negates raw scores if the scale is negative, so that their factor is positive.
  template <int kM, int kN>
  FA2_DEVICE void apply_sign(AccumulatorTile<kM, kN>& scores) const {
    if (scale.is_negative(params)) scores.negate();
  }

  /// Modifies the scores. They stay unscaled unless ALiBi or modified() needs scaled ones. If the scale is
  /// negative, unscaled scores are negated, so that the maximum stays the maximum. hide() follows.
  template <ScoreTile kTile = ScoreTile::queries_by_keys, int kM, int kN>
  FA2_DEVICE void apply(AccumulatorTile<kM, kN>& scores, int first_row, int first_col) const {
    apply_before_texts<kTile>(scores, first_row, first_col);
    if constexpr (modifies)
      for_each_position<kTile>(scores, first_row, first_col,
                               [&](float& s, const Position& position) { s = modified(s, position); });
  }

  /// The first part of apply(): returns the scores that modified() needs.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void apply_before_texts(AccumulatorTile<kM, kN>& scores, int first_row, int first_col) const {
    if constexpr (Config::softcap) softcap().apply(scores);
    scale_and_bias<kTile>(scores, first_row, first_col);
  }

  /// Sets the scores that the text of a mask does not show to -inf, unless it `shows_all`.
  template <ScoreTile kTile = ScoreTile::queries_by_keys, int kM, int kN>
  FA2_DEVICE void hide(AccumulatorTile<kM, kN>& scores, int first_row, int first_col, bool shows_all) const {
    if (!hides || shows_all) return;
    constexpr int kBlocks = 8;  // whose scores have a bit each in a word
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      u32 hidden = 0;
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        if (n % kBlocks == 0)
          hidden =
              hidden_bits<kTile>(first_row + 16 * m, first_col + 8 * n, kN - n < kBlocks ? kN - n : kBlocks);
        FA2_UNROLL
        for (int i = 0; i < 4; ++i)
          if (hidden >> (4 * (n % kBlocks) + i) & 1) scores.value[m][n][i] = -ptx::infinity();
      }
    }
  }

  /// Modifies the scores like apply(). Multiplies gradients with respect to modified scores by d modified / d
  /// score, where `score` is scaled.
  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void apply_with_gradients(AccumulatorTile<kM, kN>& scores, AccumulatorTile<kM, kN>& gradients,
                                       int first_row, int first_col) const {
    if constexpr (Config::softcap) {
      softcap().apply(scores);
      softcap().apply_derivative(scores, gradients);
    }
    scale_and_bias<kTile>(scores, first_row, first_col);
    if constexpr (has_slope) {
      AccumulatorTile<kM, kN> derivatives = scores;
      for_each_position<kTile>(derivatives, first_row, first_col,
                               [&](float& s, const Position& position) { s = derivative(s, position); });
      for_each_pair(gradients, derivatives, [](float& gradient, float factor) { gradient *= factor; });
    }
    if constexpr (modifies)
      for_each_position<kTile>(scores, first_row, first_col,
                               [&](float& s, const Position& position) { s = modified(s, position); });
  }

 private:
  template <ScoreTile kTile>
  FA2_DEVICE Position position_of(int row, int col) const {
    return kTile == ScoreTile::queries_by_keys ? positions().in_row(row)(col) : positions().in_row(col)(row);
  }

  /// Returns a bit for each of this lane's scores in `blocks` blocks of 16 x 8, at most 8: whether the text hides it. The loop is not
  /// unrolled, so that a text of any weight takes the registers of four scores.
  template <ScoreTile kTile>
  FA2_DEVICE u32 hidden_bits(int first_row, int first_col, int blocks) const {
    u32 bits = 0;
    int col = first_col + fragment_col();
    FA2_NO_UNROLL
    for (int n = 0; n < blocks; ++n, col += 8) {
      u32 four = 0;
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + i / 2 * 8 + fragment_row();
        if (!text.mask(position_of<kTile>(row, col + i % 2))) four |= 1u << i;
      }
      bits |= four << (4 * n);
    }
    return bits;
  }

  template <ScoreTile kTile, int kM, int kN>
  FA2_DEVICE void scale_and_bias(AccumulatorTile<kM, kN>& scores, int first_row, int first_col) const {
    if constexpr (Config::alibi && kTile == ScoreTile::queries_by_keys) {
      alibi.scale_and_bias(scores, first_row, first_col);
    } else if constexpr (Config::alibi) {
      alibi.scale_and_bias_keys(scores, first_row, first_col);
    } else if constexpr (modifies) {
      for_each_score(scores, [&](float& s) { s *= params.scale; });
    } else {
      apply_sign(scores);
    }
  }

  template <ScoreTile kTile, int kM, int kN, class F>
  FA2_DEVICE void for_each_position(AccumulatorTile<kM, kN>& scores, int first_row, int first_col,
                                    const F& f) const {
    const int lane_col = first_col + fragment_col();
    for_each_score(scores, first_row, [&](int row) {
      return [=](float& s, int col) { f(s, position_of<kTile>(row, lane_col + col)); };
    });
  }
};

template <class Config>
FA2_DEVICE ScoreMod<Config> score_mod_of(const AttentionParams& params, const SequenceShape& shape,
                                         const TileCoordinates& at) {
  return {params,  shape, at, alibi_of<Config>(params, shape, at), ScoreScale<Config>::of(params, at),
          {params}};
}

/// Returns a block's exponents directly from its scores, for rows whose maximum is known. This takes fewer
/// passes than apply() and the softmax, but are_right() must confirm the result. Unless ScoreMod::fused,
/// apply() must have modified the scores.
template <class Config>
struct Exponents {
  const ScoreMod<Config>& mod;
  Side side;
  int first_row;
  int first_col;        ///< first column of this lane
  u32 last_term = ~0u;  ///< bits of the softcap term nearest to 0: negative floats order in reverse as
                        ///< integers

  /// Returns a function of (score, column) for row (m, half). `offset` is OnlineSoftmax::offset.
  FA2_DEVICE auto operator()(int m, int half, float offset) {
    if constexpr (fused && Config::alibi) {
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      const float rise = mod.alibi.rise(side, row) * mod.kLog2E;
      const float start = ptx::fma_rn(-rise, static_cast<float>(mod.alibi.diagonal(row) - first_col), offset);
      return [this, rise, start](float s, int col) {
        return of(s, ptx::fma_rn(rise, static_cast<float>(col), start));
      };
    } else if constexpr (fused && ScoreMod<Config>::only_adds) {
      const auto position = mod.positions().in_row(first_row + 16 * m + 8 * half + fragment_row());
      return [this, offset, position](float s, int col) {
        return of(s, ptx::fma_rn(mod.text.bias(position(first_col + col)), mod.kLog2E, offset));
      };
    } else {
      return [this, offset](float s, int) { return of(s, offset); };
    }
  }

  /// Returns whether the exponents were right for the whole block.
  FA2_DEVICE bool are_right() const {
    return !fused || !Config::softcap || last_term >= ptx::bits_of(mod.params.softcap.last_term);
  }

 private:
  static constexpr bool fused = ScoreMod<Config>::fused;

  FA2_DEVICE float of(float s, float add) {
    if constexpr (!fused) return ptx::fma_rn(s, mod.scale_log2(), add);
    if constexpr (Config::softcap) {
      const float term = mod.softcap().term(s);
      last_term = ptx::min_u32(last_term, ptx::bits_of(term));
      return ptx::fma_rn(mod.softcap().series(s, term), mod.params.softcap.factor_log2, add);
    }
    return ptx::fma_rn(s, mod.params.signed_scale_log2, add);
  }
};

}  // namespace fa2
