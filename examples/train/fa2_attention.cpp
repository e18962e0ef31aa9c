// Plans, arguments and copies: all that training needs from fa2.
#include "fa2_attention.h"

#include "../model/bfloat16.h"

namespace example {
namespace {

fa2::AttentionProblem problem_of(const Shape& shape) {
  fa2::AttentionProblem problem;
  problem.dtype = fa2::DType::bf16;  // float32's range: gradients do not vanish, and losses need no scaling
  problem.mask = fa2::MaskKind::causal_bottom_right;
  problem.head_dim = static_cast<std::int32_t>(shape.head_dim);
  problem.batch = shape.batch;
  problem.heads_q = shape.heads_q;
  problem.heads_kv = shape.heads_kv;
  problem.seqlen_q = problem.seqlen_k = shape.context;
  return problem;
}

std::size_t bytes(std::int64_t rows, std::int64_t columns, std::size_t size = sizeof(Bfloat16)) {
  return static_cast<std::size_t>(rows * columns) * size;
}

}  // namespace

AttentionPlans::AttentionPlans(const Shape& shape)
    : forward(fa2::Context::default_context().plan(problem_of(shape))),
      backward(fa2::Context::default_context().backward_plan(problem_of(shape), -1, fa2::Gradients{})),
      on_gpu(forward.explain().arch != "interpreter") {}

Fa2Attention::Fa2Attention(const Shape& shape, const AttentionPlans& plans)
    : shape_(shape),
      rotary_(shape),
      plans_(plans),
      qkv_(bytes(shape.tokens(), shape.qkv_width()), plans.on_gpu),
      o_(bytes(shape.tokens(), shape.width()), plans.on_gpu),
      lse_(bytes(shape.tokens(), shape.heads_q, sizeof(float)), plans.on_gpu),
      d_out_(o_.size(), plans.on_gpu),
      d_qkv_(qkv_.size(), plans.on_gpu) {
  fill_in_arguments();
}

void Fa2Attention::fill_in_arguments() {
  // Q, K and V are slices of one tensor, and so are their gradients: they share strides and begin at different columns.
  const fa2::TensorStrides of_qkv = {shape_.context * shape_.qkv_width(), shape_.head_dim,
                                     shape_.qkv_width()};
  const std::int64_t k = shape_.width(), v = k + shape_.heads_kv * shape_.head_dim;

  forward_.q = qkv_.at<Bfloat16>(0), forward_.q_strides = of_qkv;
  forward_.k = qkv_.at<Bfloat16>(k), forward_.k_strides = of_qkv;
  forward_.v = qkv_.at<Bfloat16>(v), forward_.v_strides = of_qkv;
  forward_.out = o_.at<Bfloat16>(0);
  forward_.out_strides = fa2::TensorStrides::bshd(shape_.context, shape_.heads_q, shape_.head_dim);
  forward_.lse = lse_.at<float>(0);  // the backward recomputes the probabilities from it

  backward_ = fa2::backward_args(forward_);
  backward_.d_out = d_out_.at<Bfloat16>(0), backward_.d_out_strides = forward_.out_strides;
  backward_.dq = d_qkv_.at<Bfloat16>(0), backward_.dq_strides = of_qkv;
  backward_.dk = d_qkv_.at<Bfloat16>(k), backward_.dk_strides = of_qkv;
  backward_.dv = d_qkv_.at<Bfloat16>(v), backward_.dv_strides = of_qkv;
}

Matrix<float> Fa2Attention::forward(Matrix<float> qkv) {
  rotary_.rotate(qkv);
  upload(qkv, qkv_);
  plans_.forward.run(forward_);
  return downloaded(o_, shape_.tokens(), shape_.width());
}

Matrix<float> Fa2Attention::backward(const Matrix<float>& d_out) {
  upload(d_out, d_out_);
  plans_.backward.run(backward_);
  Matrix<float> d_qkv = downloaded(d_qkv_, shape_.tokens(), shape_.qkv_width());
  rotary_.rotate_back(d_qkv);
  return d_qkv;
}

}  // namespace example
