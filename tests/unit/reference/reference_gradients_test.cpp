// The reference's gradients, compared with finite differences of a naive attention.
#include <doctest/doctest.h>
#include <reference/dropout.h>
#include <reference/gradients.h>
#include <reference/sequences.h>
#include <tests/support/pairwise.h>
#include <tests/support/random_tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace fa2;
using reference::Gradients;
using reference::Tensor;
using test::random_tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A problem with its inputs and the gradients of its outputs.
struct Call {
  AttentionProblem problem;
  Tensor q, k, v, d_out;
  std::optional<std::vector<double>> d_lse;
  std::vector<float> slopes, sinks;
  double scale = 0.4;
  bool slopes_per_batch = false;

  explicit Call(const AttentionProblem& p) : problem(p.normalized()) {
    q = random_tensor(problem.batch, problem.heads_q, problem.seqlen_q, problem.head_dim, DType::f16, 1);
    k = random_tensor(problem.batch, problem.heads_kv, problem.seqlen_k, problem.head_dim, DType::f16, 2);
    v = random_tensor(problem.batch, problem.heads_kv, problem.seqlen_k, problem.head_dim_v, DType::f16, 3);
    d_out =
        random_tensor(problem.batch, problem.heads_q, problem.seqlen_q, problem.head_dim_v, DType::f16, 4);
    slopes = random_tensor(1, 1, problem.batch, problem.heads_q, DType::f16, 5).values;
    sinks = random_tensor(1, 1, 1, problem.heads_q, DType::f16, 6).values;
  }
  void give_d_lse() {
    const std::vector<float> numbers =
        random_tensor(problem.batch, problem.heads_q, problem.seqlen_q, 1, DType::f16, 7).values;
    d_lse.emplace(numbers.begin(), numbers.end());
  }
  reference::ScoreRule rule() const {
    reference::ScoreRule rule(scale);
    rule.numbers.softcap = 2;
    rule.numbers.dropout = {0.4f, 3, 5};
    rule.numbers.alibi_slopes = slopes.data();
    rule.numbers.alibi_slopes_per_batch = slopes_per_batch;
    rule.numbers.sinks = sinks.data();
    return rule;
  }
  Gradients gradients() const {
    return reference::gradients_f64(problem, q, k, v, d_out, d_lse ? &*d_lse : nullptr, rule());
  }
  Gradients baseline() const {
    return reference::gradients_baseline(problem, q, k, v, d_out, d_lse ? &*d_lse : nullptr, rule());
  }
};

/// Returns a row's share of sum(O * dO) + sum(LSE * dLSE). A row with infinite LSE adds 0.
double row_loss(const Call& call, std::int64_t b, std::int64_t h, std::int64_t i) {
  const AttentionProblem& p = call.problem;
  const std::int64_t kv = h * p.heads_kv / p.heads_q;
  const reference::DropoutMask mask(call.rule().numbers.dropout);
  double sum = p.sinks ? std::exp(double{call.sinks[static_cast<std::size_t>(h)]}) : 0, weighted = 0;
  for (std::int64_t j = 0; j < p.seqlen_k; ++j) {
    if (!reference::is_visible(p, i, j)) continue;
    double product = 0, value = 0;
    for (std::int64_t d = 0; d < p.head_dim; ++d)
      product += double{call.q.at(b, h, i, d)} * double{call.k.at(b, kv, j, d)};
    for (std::int64_t d = 0; d < p.head_dim_v; ++d)
      value += double{call.d_out.at(b, h, i, d)} * double{call.v.at(b, kv, j, d)};
    const double weight = std::exp(reference::score_of(p, call.rule(), {b, h, i, j}, product));
    sum += weight;
    if (p.dropout) value *= mask.keeps(b * p.heads_q + h, i, j) ? 1 / mask.share_kept() : 0;
    weighted += weight * value;
  }
  if (sum == 0) return 0;
  const auto row = static_cast<std::size_t>((b * p.heads_q + h) * p.seqlen_q + i);
  return weighted / sum + (call.d_lse ? (*call.d_lse)[row] * std::log(sum) : 0);
}

double loss(const Call& call) {
  double sum = 0;
  for (std::int64_t b = 0; b < call.problem.batch; ++b) {
    for (std::int64_t h = 0; h < call.problem.heads_q; ++h) {
      for (std::int64_t i = 0; i < call.problem.seqlen_q; ++i) sum += row_loss(call, b, h, i);
    }
  }
  return sum;
}

/// Returns the largest distance of `gradient` from central differences of the loss by `variables`, which
/// belong to `call`. Relative if the difference is above 1.
template <class Value>
double worst_difference(const Call& call, std::vector<float>& variables, const std::vector<Value>& gradient) {
  REQUIRE(gradient.size() == variables.size());
  double worst = 0;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const float at = variables[i], above = at + 0x1p-13f, below = at - 0x1p-13f;
    variables[i] = above;
    double difference = loss(call);
    variables[i] = below;
    difference = (difference - loss(call)) / (double{above} - double{below});
    variables[i] = at;
    worst = std::max(worst, std::abs(gradient[i] - difference) / std::max(1.0, std::abs(difference)));
  }
  return worst;
}

void expect_finite_differences(Call& call) {
  CAPTURE(to_string(call.problem));
  const Gradients gradients = call.gradients();
  CHECK(worst_difference(call, call.q.values, gradients.dq.values) < 1e-6);
  CHECK(worst_difference(call, call.k.values, gradients.dk.values) < 1e-6);
  CHECK(worst_difference(call, call.v.values, gradients.dv.values) < 1e-6);
  if (call.problem.sinks)
    CHECK(worst_difference(call, call.sinks, gradients.dsinks) < 1e-6);
  else
    CHECK(gradients.dsinks.empty());
}

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
using Width = std::optional<std::int64_t>;

/// Returns two queries of two heads over one head with one key. Only the second row of each head sees it.
Call one_key() {
  AttentionProblem p{.dtype = DType::bf16, .head_dim = 8, .mask = MaskKind::causal_bottom_right};
  p.heads_q = 2;
  p.heads_kv = 1;
  p.seqlen_q = 2;
  p.seqlen_k = 1;
  return Call(p);
}

void fill_row(Tensor& t, std::int64_t row, float value) {
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t h = 0; h < t.heads; ++h) {
      for (std::int64_t d = 0; d < t.dim; ++d) t.at(b, h, row, d) = value;
    }
  }
}

bool is_row(const Tensor& t, std::int64_t row, float value) {
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t h = 0; h < t.heads; ++h) {
      for (std::int64_t d = 0; d < t.dim; ++d) {
        const float x = t.at(b, h, row, d);
        if (std::isnan(value) ? !std::isnan(x) : x != value) return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("gradients agree with finite differences, for every pair of variants") {
  struct Window {
    Width left, right, chunk;
  };
  constexpr Window kWindows[] = {{{}, {}, {}}, {2, {}, {}}, {{}, 1, {}}, {1, 2, {}}, {{}, {}, 3}, {1, {}, 2}};
  constexpr std::array<std::int64_t, 2> kHeads[] = {{1, 1}, {4, 1}, {4, 2}},
                                        kLengths[] = {{5, 7}, {7, 4}, {1, 9}, {19, 3}, {2, 67}};
  constexpr std::array<std::int32_t, 2> kDims[] = {{8, 8}, {8, 16}, {16, 8}};
  constexpr double kScales[] = {0.4, -0.3, 0};
  for (const test::Combination& c : test::pairwise({3, 6, 2, 3, 2, 3, 5, 3, 3, 2, 2})) {
    AttentionProblem p{.head_dim = kDims[c[7]][0], .head_dim_v = kDims[c[7]][1], .mask = kMasks[c[0]]};
    p.window_left = kWindows[c[1]].left, p.window_right = kWindows[c[1]].right;
    p.attention_chunk = kWindows[c[1]].chunk;
    p.softcap = c[2] == 1, p.alibi = c[3] > 0, p.sinks = c[4] == 1, p.dropout = c[10] == 1;
    p.heads_q = kHeads[c[5]][0], p.heads_kv = kHeads[c[5]][1];
    p.seqlen_q = kLengths[c[6]][0], p.seqlen_k = kLengths[c[6]][1];
    Call call(p);
    call.slopes_per_batch = c[3] == 2;
    call.scale = kScales[c[8]];
    if (c[9] == 1) call.give_d_lse();
    expect_finite_differences(call);
  }
}

TEST_CASE("gradients agree with finite differences, with slopes per batch entry") {
  AttentionProblem p{.head_dim = 8, .mask = MaskKind::causal_bottom_right};
  p.alibi = p.sinks = true;
  p.batch = 3;
  p.heads_q = 2;
  p.seqlen_q = 4;
  p.seqlen_k = 3;
  Call call(p);
  call.slopes_per_batch = true;
  call.give_d_lse();
  expect_finite_differences(call);
}

TEST_CASE("gradients: rows without a key and keys that no query sees have 0, whatever they hold") {
  AttentionProblem p{.head_dim = 8, .mask = MaskKind::causal_bottom_right};
  p.window_left = 2;
  p.seqlen_q = 30;
  p.seqlen_k = 20;  // queries 0 .. 9 see no key
  Call call(p);
  call.give_d_lse();
  Call dirty = call;
  for (std::int64_t i = 0; i < 10; ++i) {
    fill_row(dirty.q, i, kNaN);
    fill_row(dirty.d_out, i, kNaN);
    (*dirty.d_lse)[static_cast<std::size_t>(i)] = std::nan("");
  }
  for (const auto& compute : {&Call::gradients, &Call::baseline}) {
    const Gradients clean = (call.*compute)(), gradients = (dirty.*compute)();
    for (std::int64_t i = 0; i < 10; ++i) CHECK(is_row(gradients.dq, i, 0));
    CHECK(gradients.dq.values == clean.dq.values);
    CHECK(gradients.dk.values == clean.dk.values);
    CHECK(gradients.dv.values == clean.dv.values);
  }
  p.mask = MaskKind::causal_top_left;
  p.window_left = {};
  p.seqlen_q = 3;
  dirty = Call(p);
  for (std::int64_t j = 3; j < 20; ++j) {
    fill_row(dirty.k, j, kNaN);
    fill_row(dirty.v, j, kNaN);
  }
  const Gradients gradients = dirty.gradients();
  for (std::int64_t j = 3; j < 20; ++j) {
    CHECK(is_row(gradients.dk, j, 0));
    CHECK(is_row(gradients.dv, j, 0));
  }
  for (const Tensor* t : {&gradients.dq, &gradients.dk, &gradients.dv})
    CHECK(std::ranges::none_of(t->values, [](float x) { return std::isnan(x); }));
}

TEST_CASE("gradients: without keys or queries they are empty, and sinks have LSE's share") {
  AttentionProblem p{.head_dim = 8};
  p.sinks = true;
  p.seqlen_q = 3;
  Call call(p);
  call.give_d_lse();
  const Gradients keyless = call.gradients();
  CHECK(keyless.dq.values == std::vector<float>(24, 0));
  CHECK(keyless.dk.values.empty());
  CHECK(keyless.dsinks[0] == doctest::Approx((*call.d_lse)[0] + (*call.d_lse)[1] + (*call.d_lse)[2]));
  p.seqlen_q = 0;
  p.seqlen_k = 2;
  const Gradients unasked = Call(p).gradients();
  CHECK(unasked.dk.values == std::vector<float>(16, 0));
  CHECK(unasked.dsinks == std::vector<double>{0});
}

TEST_CASE("gradients: the baseline rounds each head's gradient before it sums the group's") {
  Call call = one_key();  // P is 1, so dV is the sum of dO
  call.problem.mask = MaskKind::none;
  call.d_out.values.assign(call.d_out.values.size(), 0);
  call.d_out.at(0, 0, 0, 0) = 1;
  call.d_out.at(0, 0, 1, 0) = 0.75f * 0x1p-8f;  // vanishes next to 1 in bfloat16
  call.d_out.at(0, 1, 0, 0) = 0x1p-8f;          // so does this, but their sum does not
  CHECK(call.gradients().dv.at(0, 0, 0, 0) == 1 + 1.75f * 0x1p-8f);
  CHECK(call.baseline().dv.at(0, 0, 0, 0) == 1);
}

TEST_CASE("gradients: the baseline has the dtype, is near the reference, and passes the contract") {
  AttentionProblem p{.dtype = DType::bf16, .head_dim = 64, .mask = MaskKind::causal_bottom_right};
  p.softcap = p.sinks = true;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = 40;
  p.seqlen_k = 70;
  const Call call(p);
  const Gradients ref = call.gradients(), baseline = call.baseline();
  for (const auto& tensor : {&Gradients::dq, &Gradients::dk, &Gradients::dv}) {
    const Tensor& low = baseline.*tensor;
    CHECK(std::ranges::all_of(low.values, [](float x) { return x == round_to(x, DType::bf16); }));
    const reference::Verdict verdict =
        reference::check_gradient("dX", p.dtype, low, ref.*tensor, baseline.*tensor);
    CHECK(verdict.ok);
    CHECK(verdict.error == verdict.baseline_error);
    CHECK(verdict.limit == 3 * verdict.baseline_error + 1e-5);
    CHECK(verdict.error > 0);
    CHECK(verdict.error < 0.1);
    CHECK(verdict.message.rfind("dX ok: error ", 0) == 0);
  }
  CHECK(baseline.dsinks[3] != ref.dsinks[3]);
  CHECK(baseline.dsinks[3] == doctest::Approx(ref.dsinks[3]).epsilon(0.05));
}

TEST_CASE("gradient contract: each kind of damage is named") {
  Call call = one_key();
  const Gradients ref = call.gradients(), baseline = call.baseline();
  const auto verdict = [&](const Tensor& out) {
    return reference::check_gradient("dV", DType::bf16, out, ref.dv, baseline.dv);
  };
  Tensor out = ref.dv;
  CHECK(verdict(out).ok);
  const float far = static_cast<float>(1.01 * verdict(out).limit);
  out.at(0, 0, 0, 5) += far;
  CHECK_FALSE(verdict(out).ok);
  CHECK(verdict(out).message.rfind("dV FAILED: ", 0) == 0);
  CHECK(verdict(out).message.find("[batch 0, head 0, row 0, dim 5]") != std::string::npos);
  out.at(0, 0, 0, 5) = kNaN;
  CHECK_FALSE(verdict(out).ok);
  out.rows = 2;
  CHECK(verdict(out).message.find("has shape") != std::string::npos);

  Tensor blank = ref.dv;
  blank.values.assign(blank.values.size(), kNaN);
  CHECK_FALSE(reference::check_gradient("dV", DType::bf16, ref.dv, blank, blank).ok);
}

TEST_CASE("varlen gradients: each sequence's, and NaN in rows of no sequence") {
  AttentionProblem p{.head_dim = 8, .head_dim_v = 16, .mask = MaskKind::causal_bottom_right, .varlen = true};
  p.alibi = p.sinks = true;
  p.batch = 3;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = 9;
  p.seqlen_k = 8;
  p.total_q = 20;
  p.total_k = 21;
  Call call(p);
  const std::vector<std::int32_t> cu_seqlens_q = {1, 4, 9, 18}, cu_seqlens_k = {0, 7, 11, 19},
                                  seqused_k = {7, 4, 5};
  call.q = random_tensor(1, 4, 20, 8, DType::f16, 1), call.d_out = random_tensor(1, 4, 20, 16, DType::f16, 4);
  call.k = random_tensor(1, 2, 21, 8, DType::f16, 2), call.v = random_tensor(1, 2, 21, 16, DType::f16, 3);
  const std::vector<float> numbers = random_tensor(1, 4, 20, 1, DType::f16, 7).values;
  const std::vector<double> d_lse(numbers.begin(), numbers.end());
  reference::ScoreRule rule = call.rule();
  rule.numbers.alibi_slopes_per_batch = true;
  rule.numbers.cu_seqlens_q = cu_seqlens_q.data();
  rule.numbers.cu_seqlens_k = cu_seqlens_k.data();
  rule.numbers.seqused_k = seqused_k.data();
  const Gradients all = reference::gradients_f64(p, call.q, call.k, call.v, call.d_out, &d_lse, rule);

  std::vector<double> dsinks(4);
  std::int64_t b = 0;
  for (const reference::Sequence& s : reference::sequences_of(p, rule.numbers)) {
    const std::vector<double> part = reference::rows_of(d_lse, call.d_out, s.q);
    const Gradients alone = reference::gradients_f64(
        reference::problem_of(p, s), reference::rows_of(call.q, s.q), reference::rows_of(call.k, s.k),
        reference::rows_of(call.v, s.k), reference::rows_of(call.d_out, s.q), &part,
        reference::rule_of(p, s, rule, b++));
    CHECK(reference::rows_of(all.dq, s.q).values == alone.dq.values);
    CHECK(reference::rows_of(all.dk, s.k).values == alone.dk.values);
    CHECK(reference::rows_of(all.dv, s.k).values == alone.dv.values);
    for (std::size_t h = 0; h < 4; ++h) dsinks[h] += alone.dsinks[h];
  }
  CHECK(all.dsinks == dsinks);
  for (const std::int64_t row : {0, 18, 19}) CHECK(is_row(all.dq, row, kNaN));
  for (const std::int64_t row : {16, 18, 20}) {
    CHECK(is_row(all.dk, row, kNaN));
    CHECK(is_row(all.dv, row, kNaN));
  }
}
