// Row attention of AlphaFold: a bias of each head and pair of residues, which several rows of the batch share, and residues that are
// missing from a row.
#include <algorithm>

#include "functions.h"

namespace example {

Function pair_bias(const ScoreSizes& sizes) {
  constexpr std::int64_t kRows = 2;
  const std::int64_t length = sizes.length, heads = sizes.heads, proteins = (sizes.batch + kRows - 1) / kRows;
  const auto is_residue = [](std::int64_t batch, std::int64_t key) { return (key + batch) % 7 != 0; };
  const auto of_row = [=](std::int64_t i) { return is_residue(i / length, i % length); };
  return {
      .name = "pair_bias",
      .texts = {.bias = "return pair(at.batch / rows(), at.head, at.query, at.key);",
                .mask = "return is_residue(at.batch, at.key);"},
      .captures = {captured("pair", fa2::CaptureType::f32,
                            elements_of<float>(proteins * heads * length * length, random_number),
                            {proteins, heads, length, length}),
                   captured("rows", kRows),
                   captured("is_residue", fa2::CaptureType::boolean,
                            elements_of<std::uint8_t>(sizes.batch * length, of_row), {sizes.batch, length})},
      .host = {.mod =
                   [=](double score, const At& at) {
                     const std::int64_t head = at.batch / kRows * heads + at.head;
                     return score +
                            static_cast<double>(random_number((head * length + at.query) * length + at.key));
                   },
               .mask = [=](const At& at) { return is_residue(at.batch, at.key); }}};
}

}  // namespace example
