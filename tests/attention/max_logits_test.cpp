// The largest logit of each batch entry and head. The variants' tests compute it with every forward kernel.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One config of each way to compute, for head dim 64.
const std::vector<std::string> kConfigs = {
    "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4",
    "kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=2",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=2,schedule=2,overlap=1,"
    "speculative_max=1"};

AttentionProblem problem_of(int seqlen_q, int seqlen_k, MaskKind mask = MaskKind::none) {
  AttentionProblem problem = grouped_problem(DType::f16, mask, 64, seqlen_q, seqlen_k);
  problem.max_logits = true;
  return problem;
}

/// Runs the call with each config that can compute it here, and checks it. Calls then(max logits).
template <class Then>
void with_each_config(GuardedCall& call, const Then& then) {
  for (const std::string& text : kConfigs) {
    KernelConfig config = parse_config(text);
    if (config.kernel == KernelId::forward_sm90 && cannot_run_sm_90a()) continue;
    config.skip_masked = config.kernel == KernelId::forward_sm90 && has_edges(call.problem);
    INFO(text);
    Context context(pinning(config));
    call.upload();
    run_and_expect_contract(context, call);
    then(call.max_logits());
  }
}
void with_each_config(GuardedCall& call) {
  with_each_config(call, [](const std::vector<float>&) {});
}

}  // namespace

TEST_CASE("max logits: of few and many queries and keys, the same in every run") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const auto& [sq, sk] : {std::pair{1, 700}, {3, 129}, {130, 200}}) {
    GuardedCall call(problem_of(sq, sk));
    with_each_config(call, [&](const std::vector<float>& once) {
      Context context(untuned());
      context.attention(call.problem, call.args);
      context.attention(call.problem, call.args);
      const std::vector<float> twice = call.max_logits();
      for (std::size_t i = 0; i < once.size(); ++i) CHECK(once[i] == doctest::Approx(twice[i]).epsilon(1e-5));
    });
  }
}

TEST_CASE("max logits: hidden keys, missing and empty rows, and keys without a query do not count") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const MaskKind mask : {MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    AttentionProblem problem = problem_of(24, 75, mask);
    problem.heads_q = 6;  // of three heads a block of rows holds 21 queries, and one empty row
    GuardedCall call(problem);
    for (float& x : call.q.values) x = std::abs(x);
    for (float& x : call.k.values) x = -std::abs(x);  // rows and columns of zeros would be larger
    for (std::int64_t d = 0; d < 64; ++d) call.k.at(0, 0, 74, d) = 3;  // the last query alone sees it
    with_each_config(call, [&](const std::vector<float>& logits) {
      CHECK((logits[0] > 0) == (mask == MaskKind::causal_bottom_right));
      CHECK(logits[5] < 0);
    });
  }
}

TEST_CASE("max logits: -infinity without a visible key, whatever sinks there are") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = problem_of(20, 0);
  problem.sinks = true;
  GuardedCall call(problem);
  Context context(untuned());
  run_and_expect_contract(context, call);
  CHECK(call.max_logits() == std::vector<float>(8, -kInfinity));
}

TEST_CASE("max logits: scales that are 0 and negative, and a logit of 0") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(problem_of(9, 100));
  for (const float scale : {0.0f, -0.25f}) {
    call.args.softmax_scale = scale;
    with_each_config(call);
  }
  call.args.softmax_scale = 1;
  for (float& x : call.q.values) x = std::abs(x);
  for (float& x : call.k.values) x = -std::abs(x);
  for (std::int64_t d = 0; d < 64; ++d) call.k.at(0, 0, 50, d) = -0.0f;
  with_each_config(call, [](const std::vector<float>& logits) { CHECK(logits[0] == 0); });
}

TEST_CASE("max logits: keys whose scores rise slowly, which a lagging maximum would miss") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(problem_of(130, 400));
  for (float& x : call.q.values) x = 0.125f;
  for (std::int64_t b = 0; b < call.k.batch; ++b)
    for (std::int64_t h = 0; h < call.k.heads; ++h)
      for (std::int64_t j = 0; j < 400; ++j)  // kernels begin with the last keys
        for (std::int64_t d = 0; d < 64; ++d) call.k.at(b, h, j, d) = static_cast<float>(400 - j) / 1024;
  with_each_config(call);
}

TEST_CASE("max logits: packed sequences, of which one has no keys, and pages") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({3, 1, 40, 7}, {150, 0, 90, 33});
  for (const Packing packing : {Packing::batched, Packing::packed}) {
    const AttentionProblem problem =
        with_lengths(problem_of(1, 1, MaskKind::causal_bottom_right), lengths, packing);
    GuardedCall call(problem);
    set_lengths(call, lengths, packing);
    with_each_config(call, [&](const std::vector<float>& logits) {
      REQUIRE(logits.size() == 16);
      for (int h = 0; h < 4; ++h) CHECK(logits[4 + static_cast<std::size_t>(h)] == -kInfinity);
    });
  }
}

TEST_CASE("max logits: 8-bit keys count with their factors, widened or not") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const int queries : {2, 300}) {
    AttentionProblem problem = problem_of(queries, 130);
    problem.kv_type = KvType::e4m3;
    GuardedCall call(problem);
    Context context(untuned());
    run_and_expect_contract(context, call);
    call.k_descale.assign(call.k_descale.size(), -1.5f);
    call.upload();
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("max logits: gradients ignore them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedBackward call(problem_of(77, 129));
  run_and_expect_gradients(context, call);
  call.forward.args.max_logits = nullptr;
  call.upload();
  run_and_expect_gradients(context, call);
}
