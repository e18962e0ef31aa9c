// The standards that tests compare with: float64 attention, the 16-bit baseline and the contract.
#include <doctest/doctest.h>
#include <reference/attention_reference.h>
#include <tests/support/random_tensor.h>

#include <cmath>
#include <limits>

namespace {

using namespace fa2;
using reference::Tensor;
using test::random_tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor tensor(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  Tensor t{batch, heads, rows, dim, {}};
  t.values.resize(static_cast<std::size_t>(batch * heads * rows * dim));
  return t;
}

/// Two queries and three keys with head_dim 8, of which only the first two columns are used. The scores of
/// query 0 are 1, 2, 0 and of query 1 are 0, 1, -1. The values in column 0 are 1, 10 and 100.
struct Tiny {
  AttentionProblem problem;
  Tensor q = tensor(1, 1, 2, 8), k = tensor(1, 1, 3, 8), v = tensor(1, 1, 3, 8);

  Tiny() {
    problem.head_dim = 8;
    problem.seqlen_q = 2;
    problem.seqlen_k = 3;
    q.at(0, 0, 0, 0) = q.at(0, 0, 1, 0) = 1;
    q.at(0, 0, 1, 1) = -1;
    for (std::int64_t j = 0; j < 3; ++j) k.at(0, 0, j, 1) = 1;
    k.at(0, 0, 0, 0) = 1;
    k.at(0, 0, 1, 0) = 2;
    v.at(0, 0, 0, 0) = 1;
    v.at(0, 0, 1, 0) = 10;
    v.at(0, 0, 2, 0) = 100;
  }
};

/// Computes each query and each visible key, one at a time.
double naive(const AttentionProblem& p, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
             std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
  const std::int64_t kv = h * p.heads_kv / p.heads_q;
  double sum = 0, weighted = 0;
  for (std::int64_t j = 0; j < p.seqlen_k; ++j) {
    if (!reference::is_visible(p, i, j)) continue;
    double score = 0;
    for (std::int64_t c = 0; c < p.head_dim; ++c)
      score += double{q.at(b, h, i, c)} * double{k.at(b, kv, j, c)};
    sum += std::exp(score * scale);
    weighted += std::exp(score * scale) * double{v.at(b, kv, j, d)};
  }
  return sum == 0 ? 0 : weighted / sum;
}

}  // namespace

TEST_CASE("reference: two queries and three keys by hand") {
  const Tiny t;
  const reference::Result result = reference::attention_f64(t.problem, t.q, t.k, t.v, 1.0);
  const double e = std::exp(1.0);
  const double sum0 = e + e * e + 1, sum1 = 1 + e + 1 / e;
  CHECK(result.out.at(0, 0, 0, 0) == doctest::Approx((e + 10 * e * e + 100) / sum0).epsilon(1e-6));
  CHECK(result.out.at(0, 0, 1, 0) == doctest::Approx((1 + 10 * e + 100 / e) / sum1).epsilon(1e-6));
  CHECK(result.out.at(0, 0, 0, 1) == 0);
  CHECK(result.lse[0] == doctest::Approx(std::log(sum0)).epsilon(1e-14));
  CHECK(result.lse[1] == doctest::Approx(std::log(sum1)).epsilon(1e-14));
}

TEST_CASE("reference: scale 0 averages, a negative scale prefers the smallest score") {
  const Tiny t;
  const reference::Result zero = reference::attention_f64(t.problem, t.q, t.k, t.v, 0.0);
  CHECK(zero.out.at(0, 0, 0, 0) == doctest::Approx(37.0));
  CHECK(zero.lse[1] == doctest::Approx(std::log(3.0)));
  const reference::Result negative = reference::attention_f64(t.problem, t.q, t.k, t.v, -30.0);
  CHECK(negative.out.at(0, 0, 0, 0) == doctest::Approx(100.0));
  CHECK(negative.lse[0] == doctest::Approx(0.0));
}

TEST_CASE("reference: causal alignment with more keys, and with more queries") {
  AttentionProblem p;
  p.head_dim = 8;
  p.mask = MaskKind::causal_bottom_right;
  p.seqlen_q = 2;
  p.seqlen_k = 5;
  CHECK(reference::is_visible(p, 0, 3));
  CHECK_FALSE(reference::is_visible(p, 0, 4));
  CHECK(reference::is_visible(p, 1, 4));
  p.mask = MaskKind::causal_top_left;
  CHECK(reference::is_visible(p, 0, 0));
  CHECK_FALSE(reference::is_visible(p, 0, 1));
  CHECK_FALSE(reference::is_visible(p, 1, 2));

  p.seqlen_q = 5;
  p.seqlen_k = 2;
  CHECK(reference::is_visible(p, 4, 1));
  CHECK_FALSE(reference::is_visible(p, 0, 1));
  p.mask = MaskKind::causal_bottom_right;
  CHECK_FALSE(reference::is_visible(p, 2, 0));
  CHECK(reference::is_visible(p, 3, 0));
  CHECK_FALSE(reference::is_visible(p, 3, 1));
}

TEST_CASE("reference: rows that see no key are 0 with the chosen infinity") {
  Tiny t;
  t.problem.mask = MaskKind::causal_bottom_right;
  t.problem.seqlen_k = 1;
  t.k = tensor(1, 1, 1, 8);
  t.v = tensor(1, 1, 1, 8);
  t.v.at(0, 0, 0, 0) = 7;
  const reference::Result plus = reference::attention_f64(t.problem, t.q, t.k, t.v, 1.0);
  CHECK(plus.out.at(0, 0, 0, 0) == 0);
  CHECK(plus.lse[0] == kInfinity);
  CHECK(plus.out.at(0, 0, 1, 0) == 7);
  CHECK(plus.lse[1] == 0);
  const reference::Result minus =
      reference::attention_f64(t.problem, t.q, t.k, t.v, 1.0, EmptyRowLse::negative_infinity);
  CHECK(minus.lse[0] == -kInfinity);
}

TEST_CASE("reference: no keys, no queries, no batch") {
  Tiny t;
  t.problem.seqlen_k = 0;
  const Tensor none = tensor(1, 1, 0, 8);
  const reference::Result result = reference::attention_f64(t.problem, t.q, none, none, 1.0);
  for (const float value : result.out.values) CHECK(value == 0);
  CHECK(result.lse == std::vector<double>{kInfinity, kInfinity});
  const Tensor baseline = reference::attention_baseline(t.problem, t.q, none, none, 1.0);
  for (const float value : baseline.values) CHECK(value == 0);

  t.problem.seqlen_q = 0;
  CHECK(reference::attention_f64(t.problem, none, none, none, 1.0).out.values.empty());
  t.problem.batch = 0;
  CHECK(reference::attention_f64(t.problem, none, none, none, 1.0).lse.empty());
}

TEST_CASE("reference: blocks, threads and grouped heads agree with the plain definition") {
  AttentionProblem p;
  p.head_dim = 16;
  p.head_dim_v = 24;
  p.batch = 2;
  p.heads_q = 6;
  p.heads_kv = 2;
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    for (const auto& [sq, sk] : {std::pair<int, int>{37, 131}, {131, 37}, {1, 64}, {65, 65}}) {
      p.mask = mask;
      p.seqlen_q = sq;
      p.seqlen_k = sk;
      const Tensor q = random_tensor(2, 6, sq, 16, p.dtype, 1), k = random_tensor(2, 2, sk, 16, p.dtype, 2),
                   v = random_tensor(2, 2, sk, 24, p.dtype, 3);
      const reference::Result result = reference::attention_f64(p, q, k, v, 0.25);
      double worst = 0;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 6; ++h) {
          for (std::int64_t i = 0; i < sq; ++i) {
            const double expected = naive(p, q, k, v, 0.25, b, h, i, 23);
            worst = std::max(worst, std::abs(double{result.out.at(b, h, i, 23)} - expected));
          }
        }
      }
      CHECK(worst < 1e-6);
    }
  }
}

TEST_CASE("reference: NaN in keys that no query sees has no effect") {
  AttentionProblem p;
  p.head_dim = 8;
  p.mask = MaskKind::causal_top_left;
  p.seqlen_q = 20;
  p.seqlen_k = 90;
  const Tensor q = random_tensor(1, 1, 20, 8, p.dtype, 1);
  Tensor k = random_tensor(1, 1, 90, 8, p.dtype, 2), v = random_tensor(1, 1, 90, 8, p.dtype, 3);
  const reference::Result clean = reference::attention_f64(p, q, k, v, 1.0);
  for (std::int64_t j = 20; j < 90; ++j) k.at(0, 0, j, 3) = v.at(0, 0, j, 3) = std::nanf("");
  CHECK(reference::attention_f64(p, q, k, v, 1.0).out.values == clean.out.values);
  k.at(0, 0, 5, 0) = std::nanf("");
  const reference::Result dirty = reference::attention_f64(p, q, k, v, 1.0);
  CHECK(dirty.out.at(0, 0, 4, 0) == clean.out.at(0, 0, 4, 0));
  CHECK(std::isnan(dirty.out.at(0, 0, 5, 0)));
}

TEST_CASE("reference: the baseline rounds scores, probabilities and output") {
  AttentionProblem p;
  p.dtype = DType::bf16;
  p.head_dim = 8;
  p.seqlen_q = 1;
  p.seqlen_k = 2;
  Tensor q = tensor(1, 1, 1, 8), k = tensor(1, 1, 2, 8), v = tensor(1, 1, 2, 8);
  q.at(0, 0, 0, 0) = 1.0078125f;  // 1 + 2^-7, one step above 1 in bf16
  k.at(0, 0, 0, 0) = 1.0078125f;
  v.at(0, 0, 0, 0) = 1;
  v.at(0, 0, 1, 0) = 0;
  const float score = round_to(1.0078125f * 1.0078125f, DType::bf16);
  CHECK(score == 1.015625f);
  const float probability = round_to(1 / (1 + std::exp(-score)), DType::bf16);
  CHECK(reference::attention_baseline(p, q, k, v, 1.0).at(0, 0, 0, 0) == probability);
  CHECK(reference::attention_f64(p, q, k, v, 1.0).out.at(0, 0, 0, 0) != probability);
}

TEST_CASE("contract: the baseline passes, and each kind of damage is named") {
  AttentionProblem p;
  p.head_dim = 64;
  p.heads_q = 2;
  p.seqlen_q = 33;
  p.seqlen_k = 50;
  p.mask = MaskKind::causal_bottom_right;
  const Tensor q = random_tensor(1, 2, 33, 64, p.dtype, 1), k = random_tensor(1, 2, 50, 64, p.dtype, 2),
               v = random_tensor(1, 2, 50, 64, p.dtype, 3);
  const Tensor good = reference::attention_baseline(p, q, k, v, 0.125);
  const reference::Result ref = reference::attention_f64(p, q, k, v, 0.125);
  std::vector<float> lse(ref.lse.begin(), ref.lse.end());

  reference::Verdict verdict = reference::check(p, q, k, v, 0.125, good, &lse);
  CHECK(verdict.ok);
  CHECK(verdict.error == verdict.baseline_error);
  CHECK(verdict.baseline_error > 0);
  CHECK(verdict.limit == 2 * verdict.baseline_error + 1e-5);
  CHECK(verdict.lse_error < 1e-6);
  CHECK(verdict.message.rfind("ok: ", 0) == 0);

  Tensor far = good;
  far.at(0, 1, 30, 5) = static_cast<float>(double{ref.out.at(0, 1, 30, 5)} + verdict.limit * 1.01);
  verdict = reference::check(p, q, k, v, 0.125, far, nullptr);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.message.find("[batch 0, head 1, row 30, dim 5]") != std::string::npos);

  Tensor nan = good;
  nan.at(0, 0, 7, 1) = nan.at(0, 1, 3, 3) = std::nanf("");
  verdict = reference::check(p, q, k, v, 0.125, nan, nullptr);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.error == kInfinity);
  CHECK(verdict.message.find("[batch 0, head 0, row 7, dim 1]: nan") != std::string::npos);

  lse[40] *= 1.0001f;
  verdict = reference::check(p, q, k, v, 0.125, good, &lse);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.message.find("[batch 0, head 1, row 7]") != std::string::npos);
  lse.pop_back();
  CHECK_FALSE(reference::check(p, q, k, v, 0.125, good, &lse).ok);

  Tensor short_one = good;
  short_one.rows = 32;
  CHECK_FALSE(reference::check(p, q, k, v, 0.125, short_one, nullptr).ok);
}

TEST_CASE("contract: the infinity of an empty row must be the requested one") {
  Tiny t;
  t.problem.seqlen_k = 0;
  const Tensor none = tensor(1, 1, 0, 8), zeros = tensor(1, 1, 2, 8);
  const std::vector<float> plus(2, std::numeric_limits<float>::infinity());
  CHECK(reference::check(t.problem, t.q, none, none, 1.0, zeros, &plus).ok);
  CHECK_FALSE(
      reference::check(t.problem, t.q, none, none, 1.0, zeros, &plus, EmptyRowLse::negative_infinity).ok);
}

TEST_CASE("contract: without a finite reference nothing is compared, and the verdict is not ok") {
  Tiny t;
  t.v.values.assign(t.v.values.size(), std::nanf(""));
  const Tensor zeros = tensor(1, 1, 2, 8);
  const reference::Verdict verdict = reference::check(t.problem, t.q, t.k, t.v, 1.0, zeros, nullptr);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.message.rfind("FAILED: ", 0) == 0);
  CHECK(verdict.message.find("16 elements without a finite reference") != std::string::npos);
  CHECK(verdict.message.find("nothing was compared") != std::string::npos);
}

TEST_CASE("reference: the fused baseline rounds probabilities relative to the largest, after summing them") {
  AttentionProblem p;
  p.dtype = DType::bf16;
  p.head_dim = 8;
  p.seqlen_q = 1;
  p.seqlen_k = 2;
  Tensor q = tensor(1, 1, 1, 8), k = tensor(1, 1, 2, 8), v = tensor(1, 1, 2, 8);
  q.at(0, 0, 0, 0) = 1;
  k.at(0, 0, 1, 0) = -1;
  v.at(0, 0, 0, 0) = 1;
  v.at(0, 0, 1, 1) = 1;
  const double small = std::exp(-1.0);
  const Tensor o = reference::attention_fused_baseline(p, q, k, v, 1.0);
  CHECK(o.at(0, 0, 0, 0) == round_to(static_cast<float>(1 / (1 + small)), DType::bf16));
  const double rounded = round_to(static_cast<float>(small), DType::bf16);
  CHECK(rounded != small);
  CHECK(o.at(0, 0, 0, 1) == round_to(static_cast<float>(rounded / (1 + small)), DType::bf16));
}

TEST_CASE("reference: errors over a tensor") {
  Tensor ref = tensor(1, 1, 1, 4), out = ref;
  out.values = {3, 0, -4, 0};
  CHECK(reference::errors_of(out, ref).rms == doctest::Approx(2.5));
  CHECK(reference::errors_of(out, ref).largest == 4);
  out.values[1] = std::nanf("");
  CHECK(reference::errors_of(out, ref).largest == kInfinity);
}

TEST_CASE("contract: scores beyond float16 do not make the limit infinite") {
  Tiny t;
  for (float& value : t.q.values) value *= 60000;
  const reference::Result ref = reference::attention_f64(t.problem, t.q, t.k, t.v, 1.0);
  CHECK(std::isnan(reference::attention_baseline(t.problem, t.q, t.k, t.v, 1.0).at(0, 0, 0, 0)));
  CHECK(reference::check(t.problem, t.q, t.k, t.v, 1.0, ref.out, nullptr).ok);
  Tensor wrong = ref.out;
  wrong.at(0, 0, 0, 0) += 1;
  CHECK_FALSE(reference::check(t.problem, t.q, t.k, t.v, 1.0, wrong, nullptr).ok);
}
