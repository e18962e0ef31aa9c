// What keys and values are in memory: elements of Config::Element, or of 8 bits with factors per head.
#pragma once

#include "attention/common/kv_type.cuh"
#include "attention/common/latent_rows.cuh"
#include "tile/byte_tile.cuh"

namespace fa2 {

/// Whether rows of K and V are copied in pieces of 16 bytes.
template <class Config>
constexpr bool copies_chunks = Config::rows_are_16_byte_aligned || are_bytes<Config>;

/// The types that follow from the format. `stored_cols`: 16-bit words of a row of kDim columns. Probabilities have the
/// type to which values are widened: float16, which holds every e4m3; with latents bfloat16, for probabilities times factors.
template <class Config, int kType = Config::kv_type>
struct KeyValueFormat {
  using Probability = typename Config::Element;
  template <int kDim>
  static constexpr int stored_cols = kDim;
  template <int kDim>
  using Tile = SharedTile<Config::tile_n, (kDim + 15) / 16 * 16>;
  template <int kM, int kN>
  using Output = AccumulatorTile<kM, kN>;
};
template <class Config>
struct KeyValueFormat<Config, 1> {
  using Probability = Half;
  template <int kDim>
  static constexpr int stored_cols = kDim / 2;
  template <int kDim>
  using Tile = ByteTile<Config::tile_n, (kDim + 31) / 32 * 32>;
  template <int kM, int kN>
  using Output = InterleavedTile<kM, kN>;
};
template <class Config>
struct KeyValueFormat<Config, 3> {
  using Probability = BFloat16;
  template <int>
  static constexpr int stored_cols = LatentRow::words;
  template <int>
  using Tile = LatentTile<Config::tile_n>;
  template <int kM, int kN>
  using Output = InterleavedTile<kM, kN>;
};

/// Computes S += Q K^T. q.step(k): columns [16 k, 16 k + 16) of Q. sum_of(i): the accumulators of the i-th product with 16 or 32
/// columns; several add up to S, which q.unscale() then scales.
template <class Config, class Queries, class Keys, class SumOf>
FA2_DEVICE void add_scores(const Queries& q, Keys keys, const SumOf& sum_of) {
  using Element = typename Config::Element;
  if constexpr (are_latent_rows<Config>) {
    add_latent_scores<Element, Config::converts_e4m3>(q, keys, sum_of(0));
  } else if constexpr (are_bytes<Config>) {
    FA2_UNROLL
    for (int k = 0; k < q.steps; k += 2) gemm_nt_bytes_step<Config::converts_e4m3>(sum_of(k / 2), q, keys, k);
  } else {
    FA2_UNROLL
    for (int k = 0; k < q.steps; ++k) gemm_nt_step<Element>(sum_of(k), q.step(k), keys, 16 * k);
  }
}

/// Computes O += P V.
template <class Config, int kM, int kN, class Output, class Values>
FA2_DEVICE void add_values(Output& output, const AccumulatorTile<kM, kN>& probabilities, Values values) {
  using Element = typename KeyValueFormat<Config>::Probability;
  FA2_UNROLL
  for (int k = 0; k < Config::tile_n / 16; ++k) {
    const OperandA<kM> p = round_to_operand_a<Element>(probabilities, k);
    if constexpr (are_bytes<Config>) {
      gemm_nn_bytes<Element, Config::converts_e4m3>(output, p, values, 16 * k);
    } else {
      gemm_nn_step<Element>(output, p, values, 16 * k);
    }
  }
}

/// The factors of one sequence's keys and values with one key/value head.
template <class Config, bool kPresent = have_factors<Config>>
struct Descales {
  template <class Scores>
  FA2_DEVICE void scale_scores(Scores&) const {}
  template <class Output>
  FA2_DEVICE void scale_output(Output&) const {}
};
template <class Config>
struct Descales<Config, true> {
  float of_keys;
  float of_values;

  /// Does nothing if ScoreScale has the factor.
  template <class Scores>
  FA2_DEVICE void scale_scores(Scores& scores) const {
    if constexpr (!folds_key_factor<Config>) for_each_score(scores, [&](float& score) { score *= of_keys; });
  }
  template <class Output>
  FA2_DEVICE void scale_output(Output& output) const {
    for_each_score(output, [&](float& value) { value *= of_values; });
  }
};

template <class Config>
FA2_DEVICE Descales<Config> descales_of(const AttentionParams& params, int batch, int kv_head) {
  if constexpr (have_factors<Config>) {
    return {factor_of(params.k_descale, batch, kv_head), factor_of(params.v_descale, batch, kv_head)};
  } else {
    return {};
  }
}

}  // namespace fa2
