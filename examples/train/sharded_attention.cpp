// The calls of one GPU, but for three things: the plan knows a layout and a communicator, shapes are those of the rank's own tokens,
// and positions are those of the tokens in the whole sequence.
#include "sharded_attention.h"

#include "../model/bfloat16.h"

namespace example {
namespace {

fa2::ShardLayout layout_of(const Shape& whole, const fa2::Communicator& communicator) {
  return fa2::ShardLayout::zigzag(whole.context, communicator.size());
}

std::vector<std::int64_t> positions_of(const std::vector<fa2::Slice>& slices) {
  std::vector<std::int64_t> positions;
  for (const fa2::Slice& slice : slices) {
    for (std::int64_t i = slice.begin; i < slice.end; ++i) positions.push_back(i);
  }
  return positions;
}

Shape with_context(Shape shape, std::size_t context) {
  shape.context = static_cast<std::int64_t>(context);
  return shape;
}

fa2::ContextParallelPlan plan_of(const Shape& whole, fa2::Communicator& communicator) {
  fa2::ContextParallelOptions options;
  options.gradients = fa2::Gradients{};
  return fa2::Context::default_context().context_parallel_plan(
      attention_problem(whole), layout_of(whole, communicator), communicator, options);
}

}  // namespace

Shard::Shard(const Shape& whole_shape, fa2::Communicator& communicator, bool runs_on_gpu)
    : whole(whole_shape),
      positions(
          positions_of(layout_of(whole, communicator).ranks[static_cast<std::size_t>(communicator.rank())])),
      own(with_context(whole, positions.size())),
      plan(plan_of(whole, communicator)),
      on_gpu(runs_on_gpu) {}

Batch Shard::tokens_of(const Batch& batch) const {
  Batch result;
  for (std::int64_t sequence = 0; sequence < whole.batch; ++sequence) {
    for (const std::int64_t position : positions) {
      const auto at = static_cast<std::size_t>(sequence * whole.context + position);
      result.tokens.push_back(batch.tokens[at]);
      result.targets.push_back(batch.targets[at]);
    }
  }
  return result;
}

ShardedAttention::ShardedAttention(const Shard& shard)
    : own_(shard.own),
      rotary_(shard.own, shard.positions),
      plan_(shard.plan),
      tensors_(shard.own, shard.on_gpu) {}

Matrix<float> ShardedAttention::forward(Matrix<float> qkv) {
  rotary_.rotate(qkv);
  upload(qkv, tensors_.qkv);
  plan_.run(tensors_.forward);
  return downloaded(tensors_.o, own_.tokens(), own_.width());
}

Matrix<float> ShardedAttention::backward(const Matrix<float>& d_out) {
  upload(d_out, tensors_.d_out);
  plan_.run_backward(tensors_.backward);
  Matrix<float> d_qkv = downloaded(tensors_.d_qkv, own_.tokens(), own_.qkv_width());
  rotary_.rotate_back(d_qkv);
  return d_qkv;
}

}  // namespace example
