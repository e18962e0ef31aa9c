// A placeholder for problems without texts. The generator renders this file for each other one.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "attention/common/score_functions.cuh"

namespace fa2::score {

/// The texts of fa2/score_text.h.
struct Text {
  static constexpr bool has_bias = false, has_mod = false, has_mod_slope = false, has_mask = false;
  static constexpr bool mask_reads_head = false;

  const ScoreCaptures& captures;

  FA2_DEVICE float bias(const Position&) const { return 0.0f; }
  template <class Score>
  FA2_DEVICE Score mod(Score score, const Position&) const {
    return score;
  }
  FA2_DEVICE float mod_slope(float, const Position&) const { return 1.0f; }
  FA2_DEVICE bool mask(const Position&) const { return true; }
};

}  // namespace fa2::score
