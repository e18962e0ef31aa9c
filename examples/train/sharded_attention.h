// The model's attention over sequences whose tokens are sharded over ranks: plan, arguments and copies of one rank.
#pragma once

#include <fa2/context_parallel.h>

#include <cstdint>
#include <vector>

#include "../model/model.h"
#include "fa2_attention.h"

namespace example {

/// What a rank needs to know of its part. Each sequence of the batch is sharded alike.
struct Shard {
  /// Makes the plan of both directions, for all layers. Collective: all ranks must call it at the same time. `whole`: shape of all
  /// tokens; its context must be a multiple of twice the ranks, so that all ranks have equally many tokens. `communicator` must outlive
  /// the shard. On the current GPU, or on the interpreter.
  Shard(const Shape& whole, fa2::Communicator& communicator, bool on_gpu);

  /// Returns the rank's own tokens of a batch of all tokens, with their targets.
  Batch tokens_of(const Batch& batch) const;

  Shape whole;                          ///< of all tokens
  std::vector<std::int64_t> positions;  ///< of the rank's tokens in their sequence, in the order of its rows
  Shape own;                            ///< of the rank's tokens
  fa2::ContextParallelPlan plan;
  bool on_gpu;
};

/// As Fa2Attention, for the rank's own tokens. Every call is collective.
class ShardedAttention final : public Attention<float> {
 public:
  explicit ShardedAttention(const Shard& shard);

  Matrix<float> forward(Matrix<float> qkv) override;
  Matrix<float> backward(const Matrix<float>& d_out) override;

 private:
  Shape own_;
  Rotary<float> rotary_;
  fa2::ContextParallelPlan plan_;
  LayerTensors tensors_;
};

}  // namespace example
