// A tree of drafted tokens, which one pass verifies: a draft sees the text before all drafts, itself and its ancestors. Each has a
// word with their bits.
#include <cstdint>

#include "functions.h"

namespace example {
namespace {

std::int64_t parent(std::int64_t draft, std::int64_t batch) {
  return (draft - 1) / (2 + batch % 2);
}
bool descends(std::int64_t draft, std::int64_t from, std::int64_t batch) {
  while (draft > from) draft = parent(draft, batch);
  return draft == from;
}

}  // namespace

Function draft_tree(const ScoreSizes& sizes) {
  constexpr std::int64_t kDrafts = 24;
  const auto ancestors = [](std::int64_t i) {
    std::int64_t bits = 0;
    for (std::int64_t from = 0; from < kDrafts; ++from)
      bits |= std::int64_t{descends(i % kDrafts, from, i / kDrafts)} << from;
    return bits;
  };
  return {.name = "draft_tree",
          .texts = {.mask = "const int draft = at.key - (at.keys - at.queries);  // of the key\n"
                            "return draft < 0 || (ancestors(at.batch, at.query) >> draft & 1) != 0;"},
          .captures = {captured("ancestors", fa2::CaptureType::i64,
                                elements_of<std::int64_t>(sizes.batch * kDrafts, ancestors),
                                {sizes.batch, kDrafts})},
          .host = {.mask =
                       [](const At& at) {
                         const std::int64_t draft = at.key - (at.keys - kDrafts);
                         return draft < 0 || descends(at.query, draft, at.batch);
                       }},
          .queries = kDrafts};
}

}  // namespace example
