// Each sequence has a prompt, which all of its queries see; what follows is causal.
#include "functions.h"

namespace example {

Function prefix_lm(const ScoreSizes& sizes) {
  const std::int64_t shortest = sizes.length / 4;
  return {.name = "prefix_lm",
          .texts = {.mask = "return at.key < prompt(at.batch) || at.key <= at.query;"},
          .captures = {captured(
              "prompt", fa2::CaptureType::i32,
              elements_of<std::int32_t>(sizes.batch, [=](std::int64_t b) { return shortest + 3 * b; }),
              {sizes.batch})},
          .host = {.mask = [shortest](const At& at) {
            return at.key < shortest + 3 * at.batch || at.key <= at.query;
          }}};
}

}  // namespace example
