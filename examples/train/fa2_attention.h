// The model's attention by fa2.
#pragma once

#include <fa2/attention.h>
#include <fa2/backward.h>

#include "../model/attention.h"
#include "../model/device_memory.h"

namespace example {

/// Both directions made ready, once for all layers, on the current GPU; where there is none, on the interpreter.
struct AttentionPlans {
  explicit AttentionPlans(const Shape& shape);

  fa2::AttentionPlan forward;
  fa2::BackwardPlan backward;
  bool on_gpu;
};

/// A layer's attention. Q and K, turned by their positions, V, O and their gradients go there and come back as bfloat16.
class Fa2Attention final : public Attention<float> {
 public:
  Fa2Attention(const Shape& shape, const AttentionPlans& plans);

  Matrix<float> forward(Matrix<float> qkv) override;
  Matrix<float> backward(const Matrix<float>& d_o) override;

 private:
  void fill_in_arguments();

  Shape shape_;
  Rotary<float> rotary_;
  AttentionPlans plans_;
  DeviceMemory qkv_, o_, lse_, d_o_, d_qkv_;
  fa2::AttentionArgs forward_;
  fa2::BackwardArgs backward_;
};

}  // namespace example
