// Reads of captured tensors, one of which is followed through a text.
#pragma once

#include "attention/common/score_functions.cuh"

namespace fa2::score {

/// Returns the number of an element in row-major order. `index`: one per dimension, each in its size.
template <class... Index>
FA2_DEVICE i64 element_number(const CaptureParams& capture, Index... index) {
  i64 element = 0;
  int dimension = 0;
  ((element = element * capture.sizes[dimension++] + index), ...);
  return element;
}

/// One of the reads of a capture in one evaluation of a text: its value has the slope 1, so that the result has the derivative with
/// respect to this read.
struct FollowedRead {
  int capture;
  int number;        ///< counts the reads from 0
  int reads = 0;     ///< that the text has made of the capture
  i64 element = -1;  ///< that the followed read was of, by element_number(); -1: there was none

  /// Returns what a text gets for a read.
  FA2_DEVICE Dual read(int of, float value, i64 from) {
    if (of != capture || reads++ != number) return value;
    element = from;
    return {value, 1.0f};
  }
};

}  // namespace fa2::score
