// Random tensors, plans, arguments and the comparison.
#include "call.h"

#include <fa2/attention.h>
#include <fa2/backward.h>
#include <reference/gradients.h>

#include <algorithm>
#include <list>
#include <random>

#include "../model/bfloat16.h"
#include "../model/device_memory.h"
#include "../model/gpu_stream.h"

namespace example {
namespace {

using fa2::reference::Tensor;

constexpr int kLaunches = 20;

fa2::AttentionProblem problem_of(const Function& function, const CallOptions& options) {
  fa2::ScoreTexts texts = function.texts;
  for (const Capture& capture : function.captures) texts.captures.push_back(capture.spec);
  fa2::AttentionProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.head_dim = options.head_dim;
  problem.batch = options.sizes.batch;
  problem.heads_q = options.sizes.heads;
  problem.heads_kv = options.sizes.heads / 2;
  problem.seqlen_q = function.queries > 0 ? function.queries : options.sizes.length;
  problem.seqlen_k = options.sizes.length;
  problem.score_text = make_score_text(texts);
  return problem.normalized();
}

/// A tensor of the host, and the same in bfloat16 on the device.
struct Operand {
  Operand(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim, bool on_gpu)
      : host{batch, heads, rows, dim,
             std::vector<float>(static_cast<std::size_t>(batch * heads * rows * dim))},
        device(host.values.size() * sizeof(Bfloat16), on_gpu) {}

  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<Bfloat16> bits(host.values.size());
    for (std::size_t i = 0; i < bits.size(); ++i) host.values[i] = widened(bits[i] = rounded(normal(random)));
    device.upload(bits);
  }
  const Tensor& downloaded() {
    std::vector<Bfloat16> bits(host.values.size());
    device.download(bits);
    std::transform(bits.begin(), bits.end(), host.values.begin(), widened);
    return host;
  }

  Tensor host;
  DeviceMemory device;
};

/// The tensors of a call, each (batch, heads, rows, dim).
struct Operands {
  Operands(const fa2::AttentionProblem& p, bool on_gpu)
      : q(p.batch, p.heads_q, p.seqlen_q, p.head_dim, on_gpu),
        k(p.batch, p.heads_kv, p.seqlen_k, p.head_dim, on_gpu),
        v(p.batch, p.heads_kv, p.seqlen_k, p.head_dim, on_gpu),
        out(p.batch, p.heads_q, p.seqlen_q, p.head_dim, on_gpu),
        d_out(p.batch, p.heads_q, p.seqlen_q, p.head_dim, on_gpu),
        dq(p.batch, p.heads_q, p.seqlen_q, p.head_dim, on_gpu),
        dk(p.batch, p.heads_kv, p.seqlen_k, p.head_dim, on_gpu),
        dv(p.batch, p.heads_kv, p.seqlen_k, p.head_dim, on_gpu),
        lse(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q)),
        lse_on_device(lse.size() * sizeof(float), on_gpu) {
    std::mt19937 random(1);
    for (Operand* const input : {&q, &k, &v, &d_out}) input->fill(random);
  }

  Operand q, k, v, out, d_out, dq, dk, dv;
  std::vector<float> lse;
  DeviceMemory lse_on_device;
};

/// What texts capture, on the device.
class Captures {
 public:
  Captures(const std::vector<Capture>& captures, bool on_gpu) {
    for (const Capture& capture : captures) {
      fa2::ScoreCapture& given = list_.emplace_back();
      given.number = capture.number;
      if (capture.spec.dimensions == fa2::CaptureSpec::kNumber) continue;
      memory_.emplace_back(capture.elements.size(), on_gpu).upload(capture.elements);
      given.data = memory_.back().at<std::byte>(0);
      std::int64_t stride = 1;
      for (std::size_t i = capture.sizes.size(); i-- > 0; stride *= capture.sizes[i])
        given.sizes[i] = capture.sizes[i], given.strides[i] = stride;
    }
  }
  void give_to(fa2::AttentionArgs& args) const {
    args.captures = list_.data();
    args.capture_count = static_cast<std::int64_t>(list_.size());
  }

 private:
  std::list<DeviceMemory> memory_;
  std::vector<fa2::ScoreCapture> list_;
};

fa2::BackwardArgs backward_args_of(const fa2::AttentionProblem& p, const fa2::AttentionArgs& forward,
                                   const Operands& operands) {
  // The gradients lie in memory as their tensors do, and bhsd_args() has the strides.
  const fa2::AttentionArgs gradients = bhsd_args(p, nullptr, nullptr, nullptr, nullptr);
  fa2::BackwardArgs args = backward_args(forward);
  args.d_out = operands.d_out.device.at<Bfloat16>(0), args.d_out_strides = gradients.out_strides;
  args.dq = operands.dq.device.at<Bfloat16>(0), args.dq_strides = gradients.q_strides;
  args.dk = operands.dk.device.at<Bfloat16>(0), args.dk_strides = gradients.k_strides;
  args.dv = operands.dv.device.at<Bfloat16>(0), args.dv_strides = gradients.v_strides;
  return args;
}

/// Launches once, and on a GPU often; returns the time of a launch, in microseconds.
double timed(const GpuStream& stream, const Launches& launch) {
  stream.timed(launch);
  if (stream.get() == nullptr) return 0;
  constexpr double kMicroseconds = 1e3;
  return kMicroseconds / kLaunches * stream.timed([&] {
    for (int i = 0; i < kLaunches; ++i) launch();
  });
}

double visible_share(const fa2::AttentionProblem& p, const fa2::reference::ScoreFunctions& host) {
  if (!host.mask) return 1;
  std::int64_t visible = 0;
  At at{.queries = p.seqlen_q, .keys = p.seqlen_k};
  for (at.batch = 0; at.batch < p.batch; ++at.batch)
    for (at.query = 0; at.query < p.seqlen_q; ++at.query)
      for (at.key = 0; at.key < p.seqlen_k; ++at.key) visible += host.mask(at) ? 1 : 0;
  return static_cast<double>(visible) / static_cast<double>(p.batch * p.seqlen_q * p.seqlen_k);
}

fa2::reference::ScoreRule rule_of(const Function& function, const fa2::AttentionProblem& problem) {
  fa2::reference::ScoreRule rule(1 / std::sqrt(static_cast<double>(problem.head_dim)));
  rule.functions = function.host;
  return rule;
}

void check_forward(const fa2::AttentionProblem& p, const fa2::reference::ScoreRule& rule, Operands& operands,
                   Direction& forward) {
  operands.lse_on_device.download(operands.lse);
  forward.verdicts = {fa2::reference::check(p, operands.q.host, operands.k.host, operands.v.host, rule,
                                            operands.out.downloaded(), &operands.lse)};
}

void check_backward(const fa2::AttentionProblem& p, const fa2::reference::ScoreRule& rule, Operands& operands,
                    Direction& backward) {
  const auto with = [&](const auto& gradients) {
    return gradients(p, operands.q.host, operands.k.host, operands.v.host, operands.d_out.host, nullptr,
                     rule);
  };
  const fa2::reference::Gradients exact = with(fa2::reference::gradients_f64),
                                  baseline = with(fa2::reference::gradients_baseline);
  const auto judge = [&](const char* name, Operand& found, Tensor fa2::reference::Gradients::*gradient) {
    backward.verdicts.push_back(fa2::reference::check_gradient(name, p.dtype, found.downloaded(),
                                                               exact.*gradient, baseline.*gradient));
  };
  judge("dq", operands.dq, &fa2::reference::Gradients::dq);
  judge("dk", operands.dk, &fa2::reference::Gradients::dk);
  judge("dv", operands.dv, &fa2::reference::Gradients::dv);
}

}  // namespace

const fa2::reference::Verdict& Direction::worst() const {
  return *std::max_element(verdicts.begin(), verdicts.end(), [](const auto& a, const auto& b) {
    return a.error * b.limit < b.error * a.limit;
  });
}

CallResult call(const Function& function, const CallOptions& options) {
  const fa2::AttentionProblem problem = problem_of(function, options);
  fa2::Context& context = fa2::Context::default_context();
  const fa2::AttentionPlan plan = context.plan(problem);
  const bool on_gpu = plan.explain().arch != "interpreter";
  const GpuStream stream(on_gpu);
  Operands operands(problem, on_gpu);
  const Captures captures(function.captures, on_gpu);
  fa2::AttentionArgs args =
      bhsd_args(problem, operands.q.device.at<Bfloat16>(0), operands.k.device.at<Bfloat16>(0),
                operands.v.device.at<Bfloat16>(0), operands.out.device.at<Bfloat16>(0),
                operands.lse_on_device.at<float>(0));
  captures.give_to(args);

  CallResult result{function.name,
                    plan.explain().device,
                    plan.explain().arch,
                    visible_share(problem, function.host),
                    {},
                    {}};
  result.forward.us = timed(stream, [&] { plan.run(args, stream.get()); });
  if (options.backward) {
    const fa2::BackwardPlan gradients = context.backward_plan(problem, -1, fa2::Gradients{});
    const fa2::BackwardArgs backward = backward_args_of(problem, args, operands);
    result.backward.us = timed(stream, [&] { gradients.run(backward, stream.get()); });
  }
  if (!options.check) return result;
  const fa2::reference::ScoreRule rule = rule_of(function, problem);
  check_forward(problem, rule, operands, result.forward);
  if (options.backward) check_backward(problem, rule, operands, result.backward);
  return result;
}

}  // namespace example
