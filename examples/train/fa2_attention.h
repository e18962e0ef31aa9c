// The model's attention, computed by fa2.
#pragma once

#include <fa2/attention.h>
#include <fa2/backward.h>

#include "../model/attention.h"
#include "../model/device_memory.h"

namespace example {

/// Returns causal attention of `shape` in bfloat16.
fa2::AttentionProblem attention_problem(const Shape& shape);

/// The plans of both directions, for all layers; on the current GPU, or on the interpreter if there is none.
struct AttentionPlans {
  explicit AttentionPlans(const Shape& shape);

  fa2::AttentionPlan forward;
  fa2::BackwardPlan backward;
  bool on_gpu;
};

/// What a layer keeps from its forward to its backward, in bfloat16, and the arguments that describe it. Cannot be copied, because the
/// arguments point to the memory.
class LayerTensors {
 public:
  LayerTensors(const Shape& shape, bool on_gpu);

  DeviceMemory qkv, o, lse, d_out, d_qkv;
  fa2::AttentionArgs forward;
  fa2::BackwardArgs backward;

 private:
  void fill_in_arguments(const Shape& shape);
};

/// A layer's attention. Rotates Q and K on the CPU. Copies Q, K, V, O and their gradients as bfloat16.
class Fa2Attention final : public Attention<float> {
 public:
  Fa2Attention(const Shape& shape, const AttentionPlans& plans);

  Matrix<float> forward(Matrix<float> qkv) override;
  Matrix<float> backward(const Matrix<float>& d_out) override;

 private:
  Shape shape_;
  Rotary<float> rotary_;
  AttentionPlans plans_;
  LayerTensors tensors_;
};

}  // namespace example
