// Documents packed into sequences: a token sees the tokens before it of its own document.
#include <algorithm>

#include "functions.h"

namespace example {

Function documents(const ScoreSizes& sizes) {
  const std::int64_t longest = std::max<std::int64_t>(1, sizes.length / 3);
  const auto document = [longest](std::int64_t batch, std::int64_t token) {
    return (token + 5 * batch) / longest;
  };
  const auto of_token = [=](std::int64_t i) { return document(i / sizes.length, i % sizes.length); };
  return {.name = "documents",
          .texts = {.mask = "return id(at.batch, at.query) == id(at.batch, at.key) && at.key <= at.query;"},
          .captures = {captured("id", fa2::CaptureType::i64,
                                elements_of<std::int64_t>(sizes.batch * sizes.length, of_token),
                                {sizes.batch, sizes.length})},
          .host = {.mask = [document](const At& at) {
            return at.key <= at.query && document(at.batch, at.query) == document(at.batch, at.key);
          }}};
}

}  // namespace example
