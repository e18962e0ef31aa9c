#include "shards.h"

#include <fa2/score_text.h>
#include <runtime/device.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace fa2::test {

using reference::Tensor;

ThreadGroupOptions rank_threads(bool late, std::uint64_t seed) {
  ThreadGroupOptions options{std::chrono::seconds(60), late, seed};
  if (device_under_test() != kInterpreterDevice) options.device = device_under_test();
  return options;
}

std::vector<ShardedCase> sharded_cases(std::int64_t tokens, std::int64_t batch) {
  std::vector<ShardedCase> all;
  const auto add = [&](std::string name, MaskKind mask) -> ShardedCase& {
    AttentionProblem p =
        grouped_problem(DType::bf16, mask, 64, static_cast<int>(tokens), static_cast<int>(tokens));
    p.batch = batch;
    return all.emplace_back(ShardedCase{std::move(name), p});
  };
  add("causal", MaskKind::causal_bottom_right);
  add("causal from the top left", MaskKind::causal_top_left);
  add("no mask", MaskKind::none);
  add("window", MaskKind::causal_bottom_right).problem.window_left = 50;
  AttentionProblem& two_sides = add("window of two sides", MaskKind::none).problem;
  two_sides.window_left = 20, two_sides.window_right = 70;
  add("chunks", MaskKind::causal_bottom_right).problem.attention_chunk = 100;
  add("alibi", MaskKind::causal_bottom_right).problem.alibi = true;
  add("softcap and sinks", MaskKind::causal_bottom_right).problem.softcap = true;
  all.back().problem.sinks = true;
  add("dropout", MaskKind::causal_bottom_right).problem.dropout = true;
  AttentionProblem& window = add("dropout in a window", MaskKind::causal_bottom_right).problem;
  window.dropout = true, window.window_left = 90;
  ShardedCase& text = add("bias by position", MaskKind::causal_bottom_right);
  text.problem.score_text =
      make_score_text({.bias = "return 0.02f * at.query - 0.001f * at.queries * (at.query % 5);"});
  text.functions.mod = [](double s, const reference::ScorePosition& at) {
    return s + 0.02 * static_cast<double>(at.query) -
           0.001 * static_cast<double>(at.queries * (at.query % 5));
  };
  return all;
}

ShardedCase with_documents(ShardedCase of, const std::vector<std::int64_t>& lengths) {
  of.cu_seqlens = {0};
  for (const std::int64_t length : lengths) of.cu_seqlens.push_back(of.cu_seqlens.back() + length);
  AttentionProblem& p = of.problem;
  p.varlen = true;
  p.batch = static_cast<std::int64_t>(lengths.size());
  p.seqlen_q = p.seqlen_k = std::ranges::max(lengths);
  p.total_q = p.total_k = of.cu_seqlens.back();
  return of;
}

GuardedBackward whole_call(const ShardedCase& of) {
  GuardedBackward whole(of.problem);
  whole.forward.functions = of.functions;
  whole.wanted.d_sinks = of.problem.sinks;
  whole.forward.tables.cu_seqlens_q.assign(of.cu_seqlens.begin(), of.cu_seqlens.end());
  whole.forward.tables.cu_seqlens_k = whole.forward.tables.cu_seqlens_q;
  return whole;
}

Tensor rows_of(const Tensor& whole, const std::vector<Slice>& slices) {
  Tensor shard{whole.batch, whole.heads, 0, whole.dim, {}};
  for (const Slice& slice : slices) shard.rows += slice.size();
  for (std::int64_t head = 0; head < whole.batch * whole.heads; ++head) {
    for (const Slice& slice : slices) {
      const auto first = whole.values.begin() + head * whole.rows * whole.dim;
      shard.values.insert(shard.values.end(), first + slice.begin * whole.dim, first + slice.end * whole.dim);
    }
  }
  return shard;
}

PlacedTensor::PlacedTensor(Tensor tensor, DType type, MakeLayout make)
    : layout(make({tensor.batch, tensor.heads, tensor.rows, tensor.dim})),
      buffer(buffer_for(layout)),
      dtype(type) {
  send(tensor, layout, dtype, buffer);
}

Tensor PlacedTensor::read() const {
  return gather(downloaded<std::uint16_t>(buffer), layout, dtype);
}

ShardCall::ShardCall(const GuardedBackward& whole, const std::vector<Slice>& slices, MakeLayout layout)
    : whole_(whole),
      q_(rows_of(whole.forward.q, slices), whole.forward.problem.dtype, layout),
      k_(rows_of(whole.forward.k, slices), whole.forward.problem.dtype, layout),
      v_(rows_of(whole.forward.v, slices), whole.forward.problem.dtype, layout),
      out_(rows_of(whole.d_out, slices), whole.forward.problem.dtype, layout),
      d_out_(rows_of(whole.d_out, slices), whole.forward.problem.dtype, layout),
      dq_(rows_of(whole.forward.q, slices), whole.forward.problem.dtype, layout),
      dk_(rows_of(whole.forward.k, slices), whole.forward.problem.dtype, layout),
      dv_(rows_of(whole.forward.v, slices), whole.forward.problem.dtype, layout),
      lse_(static_cast<std::size_t>(out_.layout.shape.batch * out_.layout.shape.heads *
                                    out_.layout.shape.rows) *
           sizeof(float)),
      d_sinks_(static_cast<std::size_t>(whole.forward.problem.heads_q) * sizeof(float)) {
  for (PlacedTensor* const written : {&out_, &dq_, &dk_, &dv_}) written->buffer.fill(0xff);
  lse_.fill(0xff), d_sinks_.fill(0xff);
  if (whole.d_lse.empty()) return;
  const Tensor& d_out = whole.d_out;
  const Tensor d_lse = rows_of({d_out.batch, d_out.heads, d_out.rows, 1, whole.d_lse}, slices);
  if (std::ranges::all_of(d_lse.values, [](float x) { return x == 0; })) return;
  d_lse_.emplace(d_lse.values.size() * sizeof(float));
  d_lse_->upload(d_lse.values.data(), d_lse_->size());
}

AttentionArgs ShardCall::forward() const {
  AttentionArgs args = whole_.forward.args;
  args.q = q_.data(), args.q_strides = q_.layout.strides;
  args.k = k_.data(), args.k_strides = k_.layout.strides;
  args.v = v_.data(), args.v_strides = v_.layout.strides;
  args.out = out_.data(), args.out_strides = out_.layout.strides;
  args.lse = static_cast<float*>(lse_.data());
  args.cu_seqlens_q = args.cu_seqlens_k = nullptr;
  args.workspace = nullptr;
  return args;
}

BackwardArgs ShardCall::backward(const Gradients& gradients) const {
  BackwardArgs args = backward_args(forward());
  args.d_out = d_out_.data(), args.d_out_strides = d_out_.layout.strides;
  args.dq_strides = dq_.layout.strides, args.dk_strides = dk_.layout.strides,
  args.dv_strides = dv_.layout.strides;
  if (d_lse_) args.d_lse = static_cast<const float*>(d_lse_->data());
  if (gradients.dq) args.dq = dq_.data();
  if (gradients.dk) args.dk = dk_.data(), args.dv = dv_.data();
  if (gradients.d_sinks) args.d_sinks = static_cast<float*>(d_sinks_.data());
  args.determinism = gradients.determinism;
  return args;
}

}  // namespace fa2::test
