// Draws the weights and multiplies.
#include "thin_model.h"

#include <algorithm>

namespace example {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr double kPeaked = 2;  // scores have deviation 4, so that the next token depends on few keys

double deviation_of(std::int64_t inputs) {
  return 1 / std::sqrt(static_cast<double>(inputs));
}

Matrix<float> chosen_rows(const Matrix<float>& all, const std::vector<std::int64_t>& rows) {
  Matrix<float> result(static_cast<std::int64_t>(rows.size()), all.columns);
  for (std::int64_t i = 0; i < result.rows; ++i)
    std::copy_n(all.row(rows[static_cast<std::size_t>(i)]), all.columns, result.row(i));
  return result;
}

}  // namespace

ThinModel::ThinModel(const ModelShape& shape, std::uint64_t seed)
    : random_(seed),
      embedding_("embedding", kVocabulary, kChannels, random_),
      norm_("norm", kChannels),
      unembedding_(transposed(embedding_.table.value)) {
  for (float& value : unembedding_.values) value *= static_cast<float>(deviation_of(kChannels));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    qkv_.push_back(
        random_matrix<float>(kChannels, shape.qkv_width(), kPeaked * deviation_of(kChannels), random_));
    out_.push_back(random_matrix<float>(shape.width(), kChannels, deviation_of(shape.width()), random_));
  }
}

LayerRows ThinModel::qkv(const Tokens& tokens) {
  const Matrix<float> x = norm_.forward(embedding_.forward(tokens));
  LayerRows result;
  for (const Matrix<float>& weights : qkv_) result.push_back(product(x, weights));
  return result;
}

Matrix<float> ThinModel::logits(const LayerRows& o, const std::vector<std::int64_t>& rows) {
  Matrix<float> sum(static_cast<std::int64_t>(rows.size()), kChannels);
  for (std::size_t layer = 0; layer < o.size(); ++layer)
    add(sum, product(chosen_rows(o[layer], rows), out_[layer]));
  return product(norm_.forward(sum), unembedding_);
}

Tokens best_tokens(const Matrix<float>& logits) {
  Tokens tokens;
  for (std::int64_t i = 0; i < logits.rows; ++i)
    tokens.push_back(static_cast<std::uint8_t>(
        std::max_element(logits.row(i), logits.row(i) + logits.columns) - logits.row(i)));
  return tokens;
}

}  // namespace example
