// A dilated window: of the keys before a query every fourth.
#include "functions.h"

namespace example {

Function dilated(const ScoreSizes& sizes) {
  const std::int64_t window = sizes.length / 2;
  return {.name = "dilated",
          .texts = {.mask = "const int distance = at.query - at.key;\n"
                            "return distance >= 0 && distance < window() && distance % step() == 0;"},
          .captures = {captured("window", window), captured("step", 4)},
          .host = {.mask = [window](const At& at) {
            return at.key <= at.query && at.key > at.query - window && at.key % 4 == at.query % 4;
          }}};
}

}  // namespace example
