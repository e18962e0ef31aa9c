// Plans, arguments and copies: all that training needs from fa2.
#include "fa2_attention.h"

#include "../model/bfloat16.h"

namespace example {
namespace {

std::size_t bytes(std::int64_t rows, std::int64_t columns, std::size_t size = sizeof(Bfloat16)) {
  return static_cast<std::size_t>(rows * columns) * size;
}

}  // namespace

fa2::AttentionProblem attention_problem(const Shape& shape) {
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

AttentionPlans::AttentionPlans(const Shape& shape)
    : forward(fa2::Context::default_context().plan(attention_problem(shape))),
      backward(fa2::Context::default_context().backward_plan(attention_problem(shape), -1, fa2::Gradients{})),
      on_gpu(forward.explain().arch != "interpreter") {}

LayerTensors::LayerTensors(const Shape& shape, bool on_gpu)
    : qkv(bytes(shape.tokens(), shape.qkv_width()), on_gpu),
      o(bytes(shape.tokens(), shape.width()), on_gpu),
      lse(bytes(shape.tokens(), shape.heads_q, sizeof(float)), on_gpu),
      d_out(o.size(), on_gpu),
      d_qkv(qkv.size(), on_gpu) {
  fill_in_arguments(shape);
}

void LayerTensors::fill_in_arguments(const Shape& shape) {
  // Q, K and V are slices of one tensor, and so are their gradients: they share strides and begin at different columns.
  const fa2::TensorStrides of_qkv = {shape.context * shape.qkv_width(), shape.head_dim, shape.qkv_width()};
  const std::int64_t k = shape.width(), v = k + shape.heads_kv * shape.head_dim;

  forward.q = qkv.at<Bfloat16>(0), forward.q_strides = of_qkv;
  forward.k = qkv.at<Bfloat16>(k), forward.k_strides = of_qkv;
  forward.v = qkv.at<Bfloat16>(v), forward.v_strides = of_qkv;
  forward.out = o.at<Bfloat16>(0);
  forward.out_strides = fa2::TensorStrides::bshd(shape.context, shape.heads_q, shape.head_dim);
  forward.lse = lse.at<float>(0);  // the backward recomputes the probabilities from it

  backward = fa2::backward_args(forward);
  backward.d_out = d_out.at<Bfloat16>(0), backward.d_out_strides = forward.out_strides;
  backward.dq = d_qkv.at<Bfloat16>(0), backward.dq_strides = of_qkv;
  backward.dk = d_qkv.at<Bfloat16>(k), backward.dk_strides = of_qkv;
  backward.dv = d_qkv.at<Bfloat16>(v), backward.dv_strides = of_qkv;
}

Fa2Attention::Fa2Attention(const Shape& shape, const AttentionPlans& plans)
    : shape_(shape), rotary_(shape), plans_(plans), tensors_(shape, plans.on_gpu) {}

Matrix<float> Fa2Attention::forward(Matrix<float> qkv) {
  rotary_.rotate(qkv);
  upload(qkv, tensors_.qkv);
  plans_.forward.run(tensors_.forward);
  return downloaded(tensors_.o, shape_.tokens(), shape_.width());
}

Matrix<float> Fa2Attention::backward(const Matrix<float>& d_out) {
  upload(d_out, tensors_.d_out);
  plans_.backward.run(tensors_.backward);
  Matrix<float> d_qkv = downloaded(tensors_.d_qkv, shape_.tokens(), shape_.qkv_width());
  rotary_.rotate_back(d_qkv);
  return d_qkv;
}

}  // namespace example
