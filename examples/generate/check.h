// Compares generated tokens with those of full attention.
#pragma once

#include <string>
#include <vector>

#include "generation.h"

namespace example {

struct Check {
  double logits_difference = 0;         ///< largest |a - b| / |b| of a sequence's logits
  std::vector<std::string> ties;        ///< different tokens whose logits differ only by rounding
  std::vector<std::string> complaints;  ///< empty if all is well
};

/// Computes each sequence again as a whole, with the model's weights, materialised attention in float32 and no cache. A row sees
/// only what precedes it, so one pass covers every step. Replaces the model's attention.
Check check(Model<float>& model, const Shape& shape, const Generated& generated);

}  // namespace example
