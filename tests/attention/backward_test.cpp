// attention_backward() against the gradients' contract: every variant, layout and choice of gradients.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/pairwise.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr DType kDTypes[] = {DType::f16, DType::bf16};
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

struct Window {
  std::optional<std::int64_t> left = {}, right = {}, chunk = {};
};
constexpr Window kWindows[] = {{},
                               {.left = 20},
                               {.right = 7},
                               {.left = 50, .right = 0},
                               {.left = 0},
                               {.chunk = 50},
                               {.left = 20, .right = 7, .chunk = 33}};
constexpr std::array<std::int32_t, 2> kHeadDims[] = {{64, 64}, {128, 128}, {72, 40},  {256, 256},
                                                     {64, 32}, {8, 8},     {192, 192}};
constexpr std::array<std::int64_t, 2> kHeads[] = {{1, 1}, {4, 1}, {4, 2}};
constexpr std::array<std::int64_t, 2> kLengths[] = {{1, 1},    {63, 65},  {128, 128},
                                                    {200, 33}, {33, 200}, {77, 129}};
constexpr Wanted kWanted[] = {{},
                              {.dq = true, .dk = false, .dv = false},
                              {.dq = false, .dk = true, .dv = false},
                              {.dq = false, .dk = false, .dv = true},
                              {.dq = true, .dk = true, .dv = false},
                              {.dq = true, .dk = false, .dv = true},
                              {.dq = false, .dk = true, .dv = true}};
constexpr float kQueryScales[] = {1, 12, 60};

struct Arrangement {
  const char* name;
  BackwardLayouts (*of)(const AttentionProblem&);
};
const Arrangement kArrangements[] = {
    {"(batch, seqlen, heads, dim)", [](const auto& p) { return backward_layouts_of(p, guarded_bshd); }},
    {"(batch, heads, seqlen, dim)", [](const auto& p) { return backward_layouts_of(p, guarded_bhsd); }},
    {"shifted by one element", [](const auto& p) { return backward_layouts_of(p, misaligned); }},
    {"packed", packed_layouts_of}};

struct Case {
  AttentionProblem problem;
  const Arrangement& arrangement;
  bool has_d_lse;
  Wanted wanted;
  float q_scale;  ///< scale of N(0, 1) queries
};

/// Returns cases in which any two choices meet.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Combination& c :
       pairwise({std::size(kDTypes), std::size(kHeadDims), std::size(kMasks), std::size(kWindows), 2, 2, 2,
                 std::size(kHeads), std::size(kLengths), std::size(kArrangements), 2, std::size(kWanted), 2,
                 std::size(kQueryScales)})) {
    AttentionProblem p;
    p.dtype = kDTypes[c[0]];
    p.head_dim = kHeadDims[c[1]][0], p.head_dim_v = kHeadDims[c[1]][1];
    p.mask = kMasks[c[2]];
    p.window_left = kWindows[c[3]].left, p.window_right = kWindows[c[3]].right;
    p.attention_chunk = kWindows[c[3]].chunk;
    p.softcap = c[4] == 1, p.alibi = c[5] == 1, p.sinks = c[6] == 1;
    p.batch = 2;
    p.heads_q = kHeads[c[7]][0], p.heads_kv = kHeads[c[7]][1];
    p.seqlen_q = kLengths[c[8]][0], p.seqlen_k = kLengths[c[8]][1];
    p.dropout = c[12] == 1;
    list.push_back({p, kArrangements[c[9]], c[10] == 1, kWanted[c[11]], kQueryScales[c[13]]});
  }
  return list;
}

/// Returns the cases whose gradients one kernel can compute on Hopper.
std::vector<Case> cases_of_one_kernel() {
  std::vector<Case> list;
  for (const Case& c : cases()) {
    const bool has_aligned_rows = c.arrangement.of != kArrangements[2].of;
    if (c.problem.head_dim <= 128 && c.problem.head_dim_v <= 128 && has_aligned_rows) list.push_back(c);
  }
  return list;
}

/// Returns a call, which the caller must upload.
GuardedBackward call_of(const Case& c) {
  GuardedBackward call(c.problem, c.arrangement.of(c.problem));
  if (c.problem.softcap) call.forward.args.softcap = 1.5f;  // a cap with a slope that matters
  for (float& x : call.forward.q.values) x = round_to(x * c.q_scale, c.problem.dtype);
  if (c.has_d_lse) call.give_d_lse();
  return call;
}

std::string text(const Case& c) {
  std::string all =
      fmt::format("{}{}, queries times {}", c.arrangement.name, c.has_d_lse ? ", with dLSE" : "", c.q_scale);
  if (c.wanted.dq) all += ", dQ";
  if (c.wanted.dk) all += ", dK";
  if (c.wanted.dv) all += ", dV";
  return all;
}

/// Keeps a context for problems with batch 2 and 4 query heads over 2 key/value heads.
struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};

  void run(const GuardedBackward& call) { context.attention_backward(call.forward.problem, call.args()); }
};

bool are_zero(const reference::Tensor& gradient, std::int64_t begin, std::int64_t end) {
  bool all = true;
  for_rows(gradient, begin, end, [&](const float& x) { all &= x == 0; });
  return all;
}

/// Returns the values of `count` heads from `first` on, numbered across the batch. CHECKs that no gradient is
/// NaN.
std::vector<float> heads(const reference::Tensor& t, std::int64_t first, std::int64_t count) {
  const auto begin = t.values.begin() + first * t.rows * t.dim;
  return {begin, begin + count * t.rows * t.dim};
}

reference::Tensor entry_of(const reference::Tensor& t, std::int64_t batch) {
  return {1, t.heads, t.rows, t.dim, heads(t, batch * t.heads, t.heads)};
}

/// Returns one batch entry as a call of its own.
GuardedBackward alone(const GuardedBackward& all, std::int64_t batch) {
  AttentionProblem problem = all.forward.problem;
  problem.batch = 1;
  GuardedBackward one(problem);
  one.determinism = all.determinism;
  one.forward.q = entry_of(all.forward.q, batch);
  one.forward.k = entry_of(all.forward.k, batch);
  one.forward.v = entry_of(all.forward.v, batch);
  one.d_out = entry_of(all.d_out, batch);
  if (!all.d_lse.empty()) {
    const auto rows = problem.heads_q * problem.seqlen_q;
    one.d_lse.assign(all.d_lse.begin() + batch * rows, all.d_lse.begin() + (batch + 1) * rows);
  }
  one.upload();
  return one;
}

}  // namespace

TEST_CASE("backward: the gradients' contract holds for every pair of variants") {
  if (cannot_run()) return;
  Gpu gpu;
  const std::vector<Case> all = cases();
  const std::size_t step = device_under_test() == kInterpreterDevice ? 3 : 1;
  for (std::size_t i = 0; i < all.size(); i += step) {
    const Case& c = all[i];
    INFO(text(c));
    GuardedBackward call = call_of(c);
    call.wanted = c.wanted;
    call.determinism = Determinism::bitwise;
    call.upload();
    run_and_expect_gradients(gpu.context, call);
  }
}

TEST_CASE(
    "backward: the gradients' contract holds for every pair of variants if one kernel computes all of them") {
  if (cannot_run()) return;
  Gpu gpu;
  const std::vector<Case> all = cases_of_one_kernel();
  const std::size_t step = device_under_test() == kInterpreterDevice ? 3 : 1;
  for (std::size_t i = 0; i < all.size(); i += step) {
    const Case& c = all[i];
    INFO(text(c));
    GuardedBackward call = call_of(c);
    call.upload();
    run_and_expect_gradients(gpu.context, call);
  }
}

TEST_CASE(
    "backward: the gradients' contract holds for every pair of variants if one kernel on mma.sync does") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(default_config(KernelId::backward_sm80)));
  const std::vector<Case> all = cases();
  const std::size_t step = device_under_test() == kInterpreterDevice ? 3 : 1;
  for (std::size_t i = 1; i < all.size(); i += step) {
    Case c = all[i];
    c.problem.dropout = false;  // this kernel has no dropout
    INFO(text(c));
    GuardedBackward call = call_of(c);
    call.upload();
    run_and_expect_gradients(context, call);
  }
}

TEST_CASE("backward: rows without a key have gradient 0, for either infinity of their LSE") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    GuardedBackward call(grouped_problem(dtype, MaskKind::causal_bottom_right, 64, 200, 75));
    call.give_d_lse();
    for (const EmptyRowLse infinity : {EmptyRowLse::positive_infinity, EmptyRowLse::negative_infinity}) {
      call.forward.args.empty_row_lse = infinity;
      call.upload();
      run_and_expect_gradients(gpu.context, call);
      CHECK(are_zero(call.dq(), 0, 125));
      CHECK_FALSE(are_zero(call.dq(), 126, 127));
    }
  }
}

TEST_CASE("backward: without keys dQ is 0; without queries dK and dV are 0") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const auto& [sq, sk] : {std::pair{70, 0}, std::pair{0, 70}}) {
    const GuardedBackward call(grouped_problem(DType::f16, MaskKind::none, 64, sq, sk));
    run_and_expect_gradients(gpu.context, call);
    CHECK(are_zero(call.dq(), 0, sq));
    CHECK(are_zero(call.dk(), 0, sk));
    CHECK(are_zero(call.dv(), 0, sk));
  }
}

TEST_CASE("backward: keys that no query sees have gradient 0, whatever they hold") {
  if (cannot_run()) return;
  Gpu gpu;
  struct Hidden {
    MaskKind mask;
    Window window;
    std::int64_t begin, end;  ///< of 200 keys, those that some of the 40 queries sees
  };
  for (const Hidden& c : {Hidden{MaskKind::causal_top_left, {}, 0, 40},
                          Hidden{MaskKind::causal_bottom_right, {.left = 30}, 130, 200},
                          Hidden{MaskKind::none, {.left = 5, .right = 3}, 155, 200},
                          Hidden{MaskKind::none, {.left = 159}, 1, 200}}) {
    AttentionProblem problem = grouped_problem(DType::bf16, c.mask, 64, 40, 200);
    problem.window_left = c.window.left, problem.window_right = c.window.right;
    INFO(to_string(problem));
    GuardedBackward call(problem);
    for (reference::Tensor* tensor : {&call.forward.k, &call.forward.v}) {
      for_rows(*tensor, 0, c.begin, [](float& x) { x = kNaN; });
      for_rows(*tensor, c.end, 200, [](float& x) { x = kNaN; });
    }
    for (const Determinism determinism : {Determinism::bitwise, Determinism::fastest}) {
      call.determinism = determinism;
      call.upload();
      run_and_expect_gradients(gpu.context, call);
      for (const reference::Tensor& gradient : {call.dk(), call.dv()}) {
        CHECK(are_finite(gradient));
        CHECK(are_zero(gradient, 0, c.begin));
        CHECK(are_zero(gradient, c.end, 200));
      }
      CHECK(are_finite(call.dq()));
    }
  }
}

TEST_CASE("backward: NaN in one head stays in its group") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const MakeLayout make : {guarded_bshd, guarded_bhsd}) {
    const AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 64, 77, 129);
    GuardedBackward call(problem, backward_layouts_of(problem, make));
    run_and_expect_gradients(gpu.context, call);
    const reference::Tensor dq = call.dq(), dk = call.dk(), dv = call.dv();
    call.d_out.at(0, 3, 50, 5) = kNaN;  // query head 3 reads key/value head 1
    call.upload();
    gpu.run(call);
    CHECK(std::isnan(call.dq().at(0, 3, 50, 0)));
    CHECK(std::isnan(call.dk().at(0, 1, 100, 0)));
    CHECK(std::isnan(call.dv().at(0, 1, 100, 5)));
    CHECK((heads(call.dq(), 0, 3) == heads(dq, 0, 3)));
    CHECK((heads(call.dq(), 4, 4) == heads(dq, 4, 4)));
    for (const std::int64_t first : {0, 2}) {
      CHECK((heads(call.dk(), first, 1) == heads(dk, first, 1)));
      CHECK((heads(call.dv(), first, 1) == heads(dv, first, 1)));
    }
  }
}

TEST_CASE("backward: scales that are zero, negative or tiny") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    AttentionProblem problem = grouped_problem(dtype, MaskKind::causal_bottom_right, 64, 77, 129);
    problem.softcap = dtype == DType::bf16;
    GuardedBackward call(problem);
    call.give_d_lse();
    for (const float scale : {0.0f, -0.0f, -0.125f, -0.5f, 1e-30f, 1e-40f}) {
      call.forward.args.softmax_scale = scale;
      call.upload();
      INFO("scale ", scale);
      run_and_expect_gradients(gpu.context, call);
    }
  }
}

TEST_CASE("backward: bitwise gradients have the same bits in every run") {
  if (cannot_run()) return;
  Gpu gpu;
  const bool slow = device_under_test() == kInterpreterDevice;
  for (const DType dtype : kDTypes) {
    GuardedBackward call(slow ? grouped_problem(dtype, MaskKind::causal_bottom_right, 64, 131, 197)
                              : grouped_problem(dtype, MaskKind::causal_bottom_right, 128, 517, 700));
    call.determinism = Determinism::bitwise;
    run_and_expect_gradients(gpu.context, call);
    const reference::Tensor dq = call.dq(), dk = call.dk(), dv = call.dv();
    for (int again = 0; again < 2; ++again) {
      call.upload();
      gpu.run(call);
      CHECK((bits_of(call.dq(), dtype) == bits_of(dq, dtype)));
      CHECK((bits_of(call.dk(), dtype) == bits_of(dk, dtype)));
      CHECK((bits_of(call.dv(), dtype) == bits_of(dv, dtype)));
    }
  }
}

TEST_CASE("backward: bitwise gradients of an entry have the same bits alone and in a batch") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const MaskKind mask : kMasks) {
    AttentionProblem problem = grouped_problem(DType::bf16, mask, 64, 130, 99);
    problem.batch = 3;
    GuardedBackward all(problem);
    all.determinism = Determinism::bitwise;
    all.give_d_lse();
    all.upload();
    gpu.run(all);
    for (const std::int64_t batch : {0, 2}) {
      const GuardedBackward one = alone(all, batch);
      run_and_expect_gradients(gpu.context, one);
      CHECK((bits_of(one.dq(), problem.dtype) == bits_of(entry_of(all.dq(), batch), problem.dtype)));
      CHECK((bits_of(one.dk(), problem.dtype) == bits_of(entry_of(all.dk(), batch), problem.dtype)));
      CHECK((bits_of(one.dv(), problem.dtype) == bits_of(entry_of(all.dv(), batch), problem.dtype)));
    }
  }
}

TEST_CASE("backward: the forward's own O and LSE are as good as the reference's") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    AttentionProblem problem = grouped_problem(dtype, MaskKind::causal_bottom_right, 64, 77, 129);
    problem.softcap = problem.alibi = problem.sinks = true;
    GuardedBackward call(problem, backward_layouts_of(problem, guarded_bhsd));
    run_and_expect_contract(gpu.context, call.forward);
    BackwardArgs args = call.args();
    args.forward = call.forward.args;
    gpu.context.attention_backward(problem, args);
    expect_gradients(call);
  }
}
