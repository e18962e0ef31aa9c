// ALiBi: a slope per head times the distance.
#include <cmath>

#include "functions.h"

namespace example {

Function alibi(const ScoreSizes& sizes) {
  const auto heads = static_cast<double>(sizes.heads);
  return {.name = "alibi",
          .texts = {.bias = "return -exp2(-8.0f * (at.head + 1) / heads()) * abs(at.query - at.key);"},
          .captures = {captured("heads", sizes.heads)},
          .host = {.mod = [heads](double score, const At& at) {
            const double slope = std::exp2(-8 * static_cast<double>(at.head + 1) / heads);
            return score - slope * std::abs(static_cast<double>(at.query - at.key));
          }}};
}

}  // namespace example
