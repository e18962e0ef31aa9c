// A placeholder for masks that are evaluated pair by pair. The generator renders this file for others.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "attention/rows/score_range.cuh"

namespace fa2::score {

/// The text of a mask, of a block of positions at once.
struct RangeText {
  static constexpr bool exists = false;

  const ScoreCaptures& captures;

  FA2_DEVICE Range mask(const RangePosition&) const { return Range::unknown(); }
};

}  // namespace fa2::score
