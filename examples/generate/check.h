// What full attention says of generated tokens.
#pragma once

#include <string>
#include <vector>

#include "generation.h"

namespace example {

struct Check {
  double logits_difference = 0;         ///< |a - b| / |b| of the logits of a sequence: the largest
  std::vector<std::string> ties;        ///< other tokens that are as good but for rounding
  std::vector<std::string> complaints;  ///< empty if all is well
};

/// Computes each sequence anew, as a whole, with the model's weights and materialised attention in float32, without a cache. A row
/// sees what comes before it alone, so one pass says of every step what a pass over the sequence until then would. Replaces the
/// model's attention.
Check check(Model<float>& model, const Shape& shape, const Generated& generated);

}  // namespace example
