// A thin model around the attention, with random weights, in float32 on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "../model/layers.h"
#include "model_shapes.h"
#include "packed_step.h"

namespace example {

/// A model that is thin, so that attention stays the larger part: 64 channels, whatever the heads. Its layers stand side by side:
/// all project QKV from the embedding, and the logits follow from the sum of their outputs. So one step is one series of launches.
/// Each row of a result depends on its own row of the input alone, with the same bits in every batch.
class ThinModel {
 public:
  static constexpr std::int64_t kVocabulary = 256;

  ThinModel(const ModelShape& shape, std::uint64_t seed);

  /// Returns QKV of each layer.
  LayerRows qkv(const Tokens& tokens);
  /// Returns the logits of the tokens that follow some rows of the attention's outputs.
  Matrix<float> logits(const LayerRows& o, const std::vector<std::int64_t>& rows);

 private:
  Random random_;
  Embedding<float> embedding_;
  RmsNorm<float> norm_;
  Matrix<float> unembedding_;  ///< transposed embedding
  std::vector<Matrix<float>> qkv_, out_;
};

/// Returns the token with the largest logit of each row.
Tokens best_tokens(const Matrix<float>& logits);

}  // namespace example
