// What texts of scores read.
#pragma once

#include <fa2/score_text.h>

#include <cstdint>

namespace fa2 {

/// What may decide whether a key is seen, apart from query and key. Found in the text, so it may say yes of something that does not
/// matter, never no of something that does.
struct MaskReads {
  bool batch = true;
  bool head = true;
  bool captures = true;
};

MaskReads reads_of_mask(const ScoreTexts& texts);

/// Returns whether a text calls the capture for an integer or a boolean, with indices of its own.
constexpr bool is_integer(const CaptureSpec& spec) {
  return spec.type > CaptureType::f32 && spec.dimensions != CaptureSpec::kPerScore;
}

/// Returns whether the text of the mask also compiles with ranges of integers in place of integers: it is made of statements without
/// conditions and loops, of integers, and of operators and functions that have ranges.
bool mask_has_ranges(const ScoreTexts& texts);

/// Returns whether a bias or a mod reads captured tensors, which takes registers for each score.
bool scores_read_tensors(const ScoreTexts& texts);

/// Returns a bit per capture, the first one's lowest, that says whether gradients with respect to it exist: of tensors of a floating
/// type which the bias or the mod names. @throws InvalidRequest if no texts with this number were made in this process.
unsigned differentiable_captures(std::int64_t number);

constexpr int kNoCapture = -1;

/// Returns the number of the first capture of kPerScore that a bias or a mod names, or kNoCapture. @throws likewise.
int capture_per_score(std::int64_t number);

/// Returns the number of the capture of kPerScore that is all that texts do to scores, or kNoCapture: of a bias `return pair(at);`,
/// without a mod. The gradient of its elements is that of scores. @throws likewise.
int capture_that_is_bias(std::int64_t number);

/// Returns the dimensions of a captured tensor.
constexpr int dimensions_of(const CaptureSpec& spec) {
  return spec.dimensions == CaptureSpec::kPerScore ? kMostCaptureDimensions : spec.dimensions;
}

}  // namespace fa2
