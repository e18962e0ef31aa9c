// A learned bias of each head and distance, as in T5.
#include <algorithm>

#include "functions.h"

namespace example {

Function relative_position(const ScoreSizes& sizes) {
  static constexpr std::int64_t kFar = 32, kWidth = 2 * kFar + 1;
  return {
      .name = "relative_position",
      .texts = {.bias = "return table(at.head, max(min(at.key - at.query, far()), -far()) + far());"},
      .captures = {captured("table", fa2::CaptureType::f32,
                            elements_of<float>(sizes.heads * kWidth, random_number), {sizes.heads, kWidth}),
                   captured("far", kFar)},
      .host = {.mod = [](double score, const At& at) {
        const std::int64_t distance = std::clamp(at.key - at.query, -kFar, kFar);
        return score + static_cast<double>(random_number(at.head * kWidth + distance + kFar));
      }}};
}

}  // namespace example
