// A placeholder for problems whose texts capture no floating tensor. The generator renders this file for each other one.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "attention/backward/followed_read.cuh"

namespace fa2::score {

/// Text with numbers that carry a derivative with respect to one read of a captured tensor.
struct FollowedText {
  static constexpr int capture_count = 0;

  const ScoreCaptures& captures;
  FollowedRead& followed;

  FA2_DEVICE Dual bias(const Position&) const { return 0.0f; }
  template <class Score>
  FA2_DEVICE Score mod(Score score, const Position&) const {
    return score;
  }
};

}  // namespace fa2::score
