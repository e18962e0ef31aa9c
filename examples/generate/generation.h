// Decodes several texts at once, greedily.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../model/model.h"
#include "paged_attention.h"

namespace example {

using Tokens = std::vector<std::uint8_t>;

struct Generated {
  std::vector<Tokens> sequences;  ///< each prompt, followed by its generated tokens
  std::vector<Matrix<float>>
      logits;  ///< per sequence, one row per generated token, whose logit is the largest
  double prefill_seconds = 0, decode_seconds = 0;

  std::int64_t prompt(std::size_t sequence) const {
    return static_cast<std::int64_t>(sequences[sequence].size()) - logits[sequence].rows;
  }
};

/// Returns the token with the largest logit of a row.
inline std::uint8_t best_token(const Matrix<float>& logits, std::int64_t row) {
  const float* const begin = logits.row(row);
  return static_cast<std::uint8_t>(std::max_element(begin, begin + logits.columns) - begin);
}

/// Generates `tokens` tokens after each prompt. The model's attention must be that of `batch`, which must have no tokens yet.
Generated generate(Model<float>& model, PagedBatch& batch, const std::vector<Tokens>& prompts,
                   std::int64_t tokens);

}  // namespace example
