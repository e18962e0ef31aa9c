// The model's attention, computed by fa2.
#pragma once

#include <fa2/attention.h>
#include <fa2/backward.h>

#include "../model/attention.h"
#include "../model/device_memory.h"

namespace example {

/// The plans of both directions, for all layers; on the current GPU, or on the interpreter if there is none.
struct AttentionPlans {
  explicit AttentionPlans(const Shape& shape);

  fa2::AttentionPlan forward;
  fa2::BackwardPlan backward;
  bool on_gpu;
};

/// A layer's attention. Rotates Q and K on the CPU. Copies Q, K, V, O and their gradients as bfloat16.
class Fa2Attention final : public Attention<float> {
 public:
  Fa2Attention(const Shape& shape, const AttentionPlans& plans);

  Matrix<float> forward(Matrix<float> qkv) override;
  Matrix<float> backward(const Matrix<float>& d_out) override;

 private:
  void fill_in_arguments();

  Shape shape_;
  Rotary<float> rotary_;
  AttentionPlans plans_;
  DeviceMemory qkv_, o_, lse_, d_out_, d_qkv_;
  fa2::AttentionArgs forward_;
  fa2::BackwardArgs backward_;
};

}  // namespace example
