// Tokens are the pixels of an image, row by row: a pixel sees those near it (NATTEN).
#include <cmath>
#include <cstdlib>

#include "functions.h"

namespace example {

Function neighbourhood(const ScoreSizes& sizes) {
  constexpr std::int64_t kRadius = 3;
  const auto width = static_cast<std::int64_t>(std::sqrt(static_cast<double>(sizes.length)));
  return {.name = "neighbourhood",
          .texts = {.mask = "return abs(at.query / width() - at.key / width()) <= radius() &&\n"
                            "       abs(at.query % width() - at.key % width()) <= radius();"},
          .captures = {captured("width", width), captured("radius", kRadius)},
          .host = {.mask = [width](const At& at) {
            const std::lldiv_t query = std::lldiv(at.query, width), key = std::lldiv(at.key, width);
            return std::llabs(query.quot - key.quot) <= kRadius && std::llabs(query.rem - key.rem) <= kRadius;
          }}};
}

}  // namespace example
