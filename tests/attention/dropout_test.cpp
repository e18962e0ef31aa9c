// Dropout: the mask itself, and that every kernel and every call uses the same one for the same numbers.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <operation/rules/validate.h>
#include <reference/dropout.h>
#include <runtime/device.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using Mask = std::vector<std::uint8_t>;
using State = std::vector<std::uint64_t>;

struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};

  /// Returns the mask that dropout_mask() writes. If `state` is not empty, the device reads seed and offset
  /// from it.
  Mask mask(const AttentionProblem& problem, Dropout dropout, const State& state = {}) {
    DeviceBuffer bytes(
        static_cast<std::size_t>(problem.batch * problem.heads_q * problem.seqlen_q * problem.seqlen_k));
    DeviceBuffer on_device(2 * sizeof(std::uint64_t));
    if (!state.empty()) {
      on_device.upload(state.data(), on_device.size());
      dropout.state = static_cast<const std::uint64_t*>(on_device.data());
    }
    context.dropout_mask(problem, dropout, static_cast<std::uint8_t*>(bytes.data()));
    return downloaded<std::uint8_t>(bytes);
  }
};

AttentionProblem dropping(AttentionProblem problem) {
  problem.dropout = true;
  return problem;
}

Mask mask_of_reference(const AttentionProblem& p, const Dropout& dropout) {
  const reference::DropoutMask mask(dropout);
  Mask all;
  for (std::int64_t head = 0; head < p.batch * p.heads_q; ++head) {
    for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
      for (std::int64_t j = 0; j < p.seqlen_k; ++j) all.push_back(mask.keeps(head, i, j));
    }
  }
  return all;
}

/// Covers each kernel and several tile shapes.
const std::vector<std::string> kConfigs = {
    "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=1",
    "kernel=forward_sm80,tile_m=128,tile_n=32,warps=4,stages=2",
    "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,q_in_registers=1",
    "kernel=forward_split,tile_m=32,tile_n=16,warps=2,stages=3",
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,"
    "speculative_max=1"};

/// Calls body(context) with each config that can compute `call` on this device.
template <class Body>
void with_each_config(const GuardedCall& call, const Body& body) {
  int ran = 0;
  for (const std::string& config : kConfigs) {
    const PlannedProblem planned(call.problem,
                                 options_kept_by(call.problem, operands_of(call.problem, call.args)));
    if (why_rejected(planned, parse_config(config), device(device_under_test()).arch)) continue;
    Context context(pinning(parse_config(config)));
    INFO(config);
    body(context);
    ++ran;
  }
  CHECK(ran >= 3);
}

/// Sets V to 1 in column j % dim of key j and to 0 elsewhere. If there are as many keys as columns, O shows
/// each probability.
void show_probabilities(GuardedCall& call) {
  call.v = constant_tensor({call.v.batch, call.v.heads, call.v.rows, call.v.dim}, 0);
  for (std::int64_t head = 0; head < call.v.batch * call.v.heads; ++head) {
    for (std::int64_t j = 0; j < call.v.rows; ++j)
      call.v.at(head / call.v.heads, head % call.v.heads, j, j) = 1;
  }
  call.upload();
}

/// Returns the mask that O shows after show_probabilities().
Mask shown(const GuardedCall& call) {
  Mask mask;
  for (const float p : call.out().values) mask.push_back(p != 0);
  return mask;
}

/// Returns by how many standard deviations the mean of a sample of bits is off.
double deviations(double sum, double count, double mean, double variance) {
  return std::abs(sum - count * mean) / std::sqrt(count * variance);
}

void run(Context& context, const GuardedBackward& call) {
  context.attention_backward(call.forward.problem, call.args());
}

}  // namespace

TEST_CASE("dropout: the mask is the reference's, for every shape") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const auto& [sq, sk] : {std::pair{1, 1}, {16, 16}, {33, 50}, {7, 129}, {100, 31}}) {
    for (const float probability : {0.0f, 0.1f, 0.5f, 0.999f}) {
      const AttentionProblem problem = dropping(grouped_problem(DType::f16, MaskKind::none, 64, sq, sk));
      const Dropout dropout{probability, 0xfedcba9876543210, 0x100000002};
      INFO(to_string(problem), " ", probability);
      CHECK((gpu.mask(problem, dropout) == mask_of_reference(problem, dropout)));
    }
  }
}

TEST_CASE("dropout: seed and offset in memory act as those in arguments, and each makes a different mask") {
  if (cannot_run()) return;
  Gpu gpu;
  const AttentionProblem problem = dropping(grouped_problem(DType::f16, MaskKind::none, 64, 40, 60));
  const std::uint64_t seed = 0xfedcba9876543210, offset = 0x100000002;
  const Mask mask = gpu.mask(problem, {0.5f, seed, offset});
  CHECK((gpu.mask(problem, {0.5f}, {seed, offset}) == mask));
  for (const auto& [other_seed, other_offset] : {std::pair{seed + 1, offset},
                                                 {seed, offset + 1},
                                                 {seed ^ 1ull << 63, offset},
                                                 {seed, offset ^ 1ull << 63}})
    CHECK_FALSE((gpu.mask(problem, {0.5f, other_seed, other_offset}) == mask));
}

// A sample of 2^20 bits. Neighbours of every kind must be independent.
TEST_CASE("dropout: the requested share is dropped, independently of neighbours") {
  if (cannot_run()) return;
  Gpu gpu;
  const std::int64_t rows = 512, heads = 4;
  AttentionProblem problem = dropping(grouped_problem(DType::f16, MaskKind::none, 64, rows, rows));
  problem.batch = 1;
  for (const double p : {0.1, 0.5, 0.9}) {
    const Mask mask = gpu.mask(problem, {static_cast<float>(p), 3, 4});
    const auto dropped = [&](std::int64_t place) { return 1.0 - mask[static_cast<std::size_t>(place)]; };
    double sum = 0;
    for (std::int64_t i = 0; i < heads * rows * rows; ++i) sum += dropped(i);
    CHECK(deviations(sum, double(heads * rows * rows), p, p * (1 - p)) < 5);
    // Next key; next query; the key with the same word; the query with the same Philox call; next head.
    for (const std::int64_t step : {std::int64_t{1}, rows, std::int64_t{8}, 8 * rows, rows * rows}) {
      double both = 0;
      const std::int64_t count = heads * rows * rows - step;
      for (std::int64_t i = 0; i < count; ++i) both += (dropped(i) - p) * (dropped(i + step) - p);
      INFO("p ", p, ", step ", step);
      CHECK(deviations(both, double(count), 0, p * p * (1 - p) * (1 - p)) < 5);
    }
  }
}

TEST_CASE("dropout: every configuration of the forward uses the mask that dropout_mask() writes") {
  if (cannot_run()) return;
  Gpu gpu;
  AttentionProblem problem = dropping(grouped_problem(DType::f16, MaskKind::none, 128, 70, 128));
  GuardedCall call(problem);
  show_probabilities(call);
  const Mask mask = gpu.mask(problem, call.args.dropout);
  with_each_config(call, [&](Context& context) {
    call.upload();
    run_and_expect_contract(context, call);
    CHECK((shown(call) == mask));
  });
}

TEST_CASE("dropout: the forward reads seed and offset from memory in every launch") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(dropping(grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 64, 90, 130)));
  with_each_config(call, [&](Context& context) {
    for (const State& state : {State{1, 2}, State{1, 3}, State{0x8000000000000001, 2}}) {
      call.dropout_state = state;
      call.upload();
      run_and_expect_contract(context, call);
    }
  });
}

TEST_CASE("dropout: probability 0 keeps the bits of attention without dropout") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem plain = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 64, 90, 130);
  plain.heads_kv = plain.heads_q;  // heads share tiles only without dropout, which changes bits
  const GuardedCall without(plain);
  GuardedCall call(dropping(plain));
  call.args.dropout.probability = 0;
  with_each_config(call, [&](Context& context) {
    context.attention(without.problem, without.args);
    call.upload();
    run_and_expect_contract(context, call);
    CHECK((bits_of(call.out(), plain.dtype) == bits_of(without.out(), plain.dtype)));
  });
}

TEST_CASE("dropout: probabilities near 0 and near 1") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(dropping(grouped_problem(DType::f16, MaskKind::none, 64, 90, 130)));
  for (const float probability : {1e-9f, 0.01f, 0.97f, 1 - 0x1p-24f}) {
    call.args.dropout.probability = probability;
    with_each_config(call, [&](Context& context) {
      call.upload();
      run_and_expect_contract(context, call);
    });
  }
}

TEST_CASE("dropout: packed sequences have their own masks") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem =
      dropping(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 100, 120));
  problem.varlen = true;
  problem.batch = 4;
  problem.total_q = 200, problem.total_k = 260;
  GuardedBackward call(problem);
  call.forward.tables.cu_seqlens_q = {0, 33, 33, 130, 200};
  call.forward.tables.cu_seqlens_k = {0, 65, 70, 180, 260};
  call.upload();
  with_each_config(call.forward, [&](Context& context) {
    call.upload();
    run_and_expect_contract(context, call.forward);
  });
  Context context(untuned());
  run_and_expect_gradients(context, call);
}

TEST_CASE("dropout: every choice of gradients, from seeds in arguments and in memory") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const auto& [dim, dim_v] : {std::pair{64, 64}, {128, 128}, {256, 256}, {72, 40}}) {
    for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
      AttentionProblem problem =
          dropping(grouped_problem(DType::f16, MaskKind::causal_bottom_right, dim, 77, 129));
      problem.head_dim_v = dim_v;
      GuardedBackward call(problem);
      call.determinism = determinism;
      run_and_expect_gradients(gpu.context, call);
      call.forward.dropout_state = {5, 6};
      call.upload();
      run_and_expect_gradients(gpu.context, call);
    }
  }
  for (const Wanted& wanted : {Wanted{.dk = false, .dv = false}, Wanted{.dq = false, .dv = false},
                               Wanted{.dq = false, .dk = false}}) {
    GuardedBackward call(dropping(grouped_problem(DType::bf16, MaskKind::none, 64, 77, 129)));
    call.wanted = wanted;
    run_and_expect_gradients(gpu.context, call);
  }
}

TEST_CASE("dropout: a Hopper GPU computes all gradients with one kernel") {
  if (cannot_run_sm_90a()) return;
  Gpu gpu;
  for (const int dim : {120, 128, 256}) {
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
      const PlannedProblem p(dropping(grouped_problem(DType::f16, mask, dim, 200, 130)), {});
      GuardedBackward call(p);
      run_and_expect_gradients(gpu.context, call);
      const BackwardPlan plan = gpu.context.backward_plan(p, device_under_test(), {}, {});
      CHECK(pass_of(plan.explain().kernels.at(1).config) == KernelPass::dq_dk_dv);
    }
  }
}

TEST_CASE("dropout: probability 0 keeps the bits of dV without dropout") {
  if (cannot_run()) return;
  Gpu gpu;
  // At this head dim Hopper's fused kernel computes both.
  const AttentionProblem plain = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 128, 77, 129);
  GuardedBackward without(plain), call(dropping(plain));
  without.determinism = call.determinism = Determinism::bitwise;
  call.forward.args.dropout.probability = 0;
  call.upload();
  run(gpu.context, without);
  run_and_expect_gradients(gpu.context, call);
  CHECK((bits_of(call.dv(), plain.dtype) == bits_of(without.dv(), plain.dtype)));
}

TEST_CASE("dropout: NaN is not dropped from a gradient") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
    GuardedBackward call(dropping(grouped_problem(DType::f16, MaskKind::none, 128, 77, 129)));
    call.determinism = determinism;
    call.forward.q.at(0, 3, 50, 5) = std::nanf("");  // query head 3 reads key/value head 1
    call.upload();
    run(gpu.context, call);
    CHECK(std::isnan(call.dq().at(0, 3, 50, 0)));
    CHECK(std::isnan(call.dk().at(0, 1, 100, 0)));
    CHECK(std::isnan(call.dv().at(0, 1, 100, 5)));
    CHECK_FALSE(std::isnan(call.dv().at(0, 0, 100, 5)));
  }
}
