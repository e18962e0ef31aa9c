// Greedy decoding of several texts at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../model/model.h"
#include "paged_attention.h"

namespace example {

using Tokens = std::vector<std::uint8_t>;

struct Generated {
  std::vector<Tokens> sequences;      ///< each prompt and what was generated behind it
  std::vector<Matrix<float>> logits;  ///< of each sequence: a row a generated token, which has the largest
  double prefill_seconds = 0, decode_seconds = 0;

  std::int64_t prompt(std::size_t sequence) const {
    return static_cast<std::int64_t>(sequences[sequence].size()) - logits[sequence].rows;
  }
};

/// Of a row of logits.
inline std::uint8_t best_token(const Matrix<float>& logits, std::int64_t row) {
  const float* const begin = logits.row(row);
  return static_cast<std::uint8_t>(std::max_element(begin, begin + logits.columns) - begin);
}

/// `tokens` behind each prompt, all at once. The model's attention is that of `batch`, which has no tokens yet.
Generated generate(Model<float>& model, PagedBatch& batch, const std::vector<Tokens>& prompts,
                   std::int64_t tokens);

}  // namespace example
