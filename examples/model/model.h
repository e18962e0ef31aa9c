// A decoder-only transformer over bytes: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "attention.h"
#include "layers.h"
#include "shape.h"

namespace example {

constexpr std::int64_t kBytes = 256;  // size of the vocabulary

/// Tokens of the batch's sequences, one sequence after the other. The target of a token is the one that follows it.
struct Batch {
  std::vector<std::uint8_t> tokens;
  std::vector<std::uint8_t> targets;
};

template <class Real>
using MakeAttention = std::function<std::unique_ptr<Attention<Real>>()>;

/// Computes x = x + out(attention(qkv(norm(x)))), then x + down(SwiGLU(up(norm(x)))).
template <class Real>
class Block {
 public:
  Block(const std::string& name, const Shape& shape, std::unique_ptr<Attention<Real>> attention,
        Random& random)
      : attention_norm_(name + "attention_norm", shape.width()),
        qkv_(name + "qkv", shape.width(), shape.qkv_width(), random),
        attention_(std::move(attention)),
        out_(name + "out", shape.width(), shape.width(), random),
        feed_forward_norm_(name + "feed_forward_norm", shape.width()),
        up_(name + "up", shape.width(), 2 * shape.hidden, random),
        down_(name + "down", shape.hidden, shape.width(), random) {}

  Matrix<Real> forward(Matrix<Real> x) {
    add(x, out_.forward(attention_->forward(qkv_.forward(attention_norm_.forward(x)))));
    add(x, down_.forward(swiglu_.forward(up_.forward(feed_forward_norm_.forward(x)))));
    return x;
  }

  Matrix<Real> backward(Matrix<Real> d_x) {
    add(d_x, feed_forward_norm_.backward(up_.backward(swiglu_.backward(down_.backward(d_x)))));
    add(d_x, attention_norm_.backward(qkv_.backward(attention_->backward(out_.backward(d_x)))));
    return d_x;
  }

  void replace_attention(std::unique_ptr<Attention<Real>> attention) { attention_ = std::move(attention); }

  std::vector<Parameter<Real>*> parameters() {
    return {&attention_norm_.gain,    &qkv_.weight, &out_.weight,
            &feed_forward_norm_.gain, &up_.weight,  &down_.weight};
  }

 private:
  RmsNorm<Real> attention_norm_;
  Linear<Real> qkv_;
  std::unique_ptr<Attention<Real>> attention_;
  Linear<Real> out_;
  RmsNorm<Real> feed_forward_norm_;
  Linear<Real> up_;
  SwiGlu<Real> swiglu_;
  Linear<Real> down_;
};

template <class Real>
class Model {
 public:
  /// Draws the weights from `seed`: the same for every implementation of attention.
  Model(const Shape& shape, std::uint64_t seed, const MakeAttention<Real>& make_attention)
      : random_(seed),
        embedding_("embedding", kBytes, shape.width(), random_),
        norm_("norm", shape.width()),
        logits_("logits", shape.width(), kBytes, random_) {
    for (std::int64_t i = 0; i < shape.layers; ++i)
      blocks_.emplace_back("block " + std::to_string(i) + " ", shape, make_attention(), random_);
  }

  /// Gives each layer another attention and keeps the weights.
  void replace_attention(const MakeAttention<Real>& make_attention) {
    for (Block<Real>& block : blocks_) block.replace_attention(make_attention());
  }

  /// Returns one row per token: the logits of the byte that follows. Attention knows which tokens belong to one sequence.
  Matrix<Real> logits(const std::vector<std::uint8_t>& tokens) {
    Matrix<Real> x = embedding_.forward(tokens);
    for (Block<Real>& block : blocks_) x = block.forward(std::move(x));
    return logits_.forward(norm_.forward(x));
  }

  /// Returns the loss in nats per byte, and stores the gradient of every parameter.
  Real loss_and_gradients(const Batch& batch) {
    Matrix<Real> logits = this->logits(batch.tokens);
    const Real loss = cross_entropy(logits, batch.targets);
    Matrix<Real> d_x = norm_.backward(logits_.backward(logits));
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
      d_x = block->backward(std::move(d_x));
    embedding_.backward(d_x);
    return loss;
  }

  /// Returns all parameters. The pointers stay valid while the model exists.
  std::vector<Parameter<Real>*> parameters() {
    std::vector<Parameter<Real>*> all = {&embedding_.table, &norm_.gain, &logits_.weight};
    for (Block<Real>& block : blocks_) {
      for (Parameter<Real>* parameter : block.parameters()) all.push_back(parameter);
    }
    return all;
  }

 private:
  Random random_;
  Embedding<Real> embedding_;
  std::vector<Block<Real>> blocks_;
  RmsNorm<Real> norm_;
  Linear<Real> logits_;
};

}  // namespace example
