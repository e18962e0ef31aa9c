// A sliding window, and the first tokens, which every query sees (StreamingLLM).
#include "functions.h"

namespace example {

Function sink_window(const ScoreSizes& sizes) {
  const std::int64_t window = sizes.length / 4;
  return {
      .name = "sink_window",
      .texts = {.mask = "return at.key <= at.query && (at.key < sinks() || at.query - at.key < window());"},
      .captures = {captured("sinks", 4), captured("window", window)},
      .host = {.mask = [window](const At& at) {
        const bool in_window = at.key > at.query - window && at.key <= at.query;
        return in_window || (at.key < 4 && at.key <= at.query);
      }}};
}

}  // namespace example
