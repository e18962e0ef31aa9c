// The reference with varlen, compared with batched attention of each sequence.
#include <doctest/doctest.h>
#include <reference/attention_reference.h>
#include <reference/sequences.h>
#include <tests/support/random_tensor.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using namespace fa2;
using reference::Sequence;
using reference::SequenceRows;
using reference::Tensor;
using test::random_tensor;

using Table = std::vector<std::int32_t>;

/// Four sequences. Queries are packed, 3, 0, 5 and 20 rows; of the last, at most 9 may count and 6 do. Keys:
/// 7, 4, 0 and 11.
struct Packed {
  AttentionProblem problem;
  Table cu_seqlens_q = {1, 4, 4, 9, 29}, cu_seqlens_k = {0, 7, 11, 11, 22}, seqused_q = {3, 2, 9, 6};
  Tensor q = random_tensor(1, 4, 31, 16, DType::f16, 1), k = random_tensor(1, 2, 24, 16, DType::f16, 2),
         v = random_tensor(1, 2, 24, 24, DType::f16, 3);
  std::vector<float> slopes = {0.5f, 0.25f, 0.1f, 0, 1,    0.01f, 0.3f, 0.2f,
                               0.7f, 0.6f,  0.4f, 0, 0.9f, 0.8f,  2,    3};
  std::vector<float> sinks = {0.5f, -1, 2, 0};
  reference::ScoreRule rule = 0.25;

  explicit Packed(MaskKind mask) {
    problem = {.head_dim = 16, .head_dim_v = 24, .mask = mask, .varlen = true, .batch = 4, .heads_q = 4};
    problem.window_left = 4;
    problem.softcap = problem.alibi = problem.sinks = true;
    problem.heads_kv = 2;
    problem.seqlen_q = 9;
    problem.seqlen_k = 10;
    problem.total_q = 31;
    problem.total_k = 24;
    rule.numbers.softcap = 3;
    rule.numbers.alibi_slopes = slopes.data();
    rule.numbers.alibi_slopes_per_batch = true;
    rule.numbers.sinks = sinks.data();
    rule.numbers.cu_seqlens_q = cu_seqlens_q.data();
    rule.numbers.cu_seqlens_k = cu_seqlens_k.data();
    rule.numbers.seqused_q = seqused_q.data();
  }
};

/// {begin, count} of the sequences of Packed.
constexpr std::int64_t kQueries[][2] = {{1, 3}, {4, 0}, {4, 5}, {9, 6}};
constexpr std::int64_t kKeys[][2] = {{0, 7}, {7, 4}, {11, 0}, {11, 10}};

Tensor rows(const Tensor& all, std::int64_t begin, std::int64_t count) {
  Tensor part{1, all.heads, count, all.dim, {}};
  for (std::int64_t h = 0; h < all.heads; ++h) {
    for (std::int64_t r = begin; r < begin + count; ++r) {
      for (std::int64_t d = 0; d < all.dim; ++d) part.values.push_back(all.at(0, h, r, d));
    }
  }
  return part;
}

/// CHECKs that compute(problem, q, k, v, rule) -> O gives the same rows for sequence `b` alone as for all of
/// them.
template <class Compute>
void expect_same(const Packed& packed, std::size_t b, const Compute& compute) {
  AttentionProblem alone = packed.problem;
  alone.varlen = false;
  alone.batch = 1;
  alone.total_q = alone.total_k = 0;
  alone.seqlen_q = kQueries[b][1];
  alone.seqlen_k = kKeys[b][1];
  reference::ScoreRule rule = packed.rule;
  rule.numbers.alibi_slopes = packed.slopes.data() + 4 * b;
  const Tensor k = rows(packed.k, kKeys[b][0], kKeys[b][1]), v = rows(packed.v, kKeys[b][0], kKeys[b][1]);
  const Tensor expected = compute(alone, rows(packed.q, kQueries[b][0], kQueries[b][1]), k, v, rule);
  const Tensor all = compute(packed.problem, packed.q, packed.k, packed.v, packed.rule);
  CHECK(rows(all, kQueries[b][0], kQueries[b][1]).values == expected.values);
}

bool is_of_a_sequence(std::int64_t row) {
  for (const auto& [begin, count] : kQueries) {
    if (row >= begin && row < begin + count) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("varlen reference: packed sequences equal batched attention of each") {
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    const Packed packed(mask);
    for (std::size_t b = 0; b < 4; ++b) {
      CAPTURE(b);
      expect_same(packed, b, [](const auto&... in) { return reference::attention_f64(in...).out; });
      expect_same(packed, b, [](const auto&... in) { return reference::attention_baseline(in...); });
      expect_same(packed, b, [](const auto&... in) { return reference::attention_fused_baseline(in...); });
      expect_same(packed, b, [](const auto&... in) {
        const reference::Result result = reference::attention_f64(in...);
        Tensor lse{1, 4, result.out.rows, 1, {}};
        for (const double value : result.lse) lse.values.push_back(static_cast<float>(value));
        return lse;
      });
    }
  }
}

TEST_CASE("varlen reference: rows of no sequence are not computed, and have no effect") {
  const Packed packed(MaskKind::none);
  const reference::Result result =
      reference::attention_f64(packed.problem, packed.q, packed.k, packed.v, packed.rule);
  REQUIRE(result.out.rows == 31);
  for (std::int64_t h = 0; h < 4; ++h) {
    for (std::int64_t r = 0; r < 31; ++r) {
      CAPTURE(r);
      CHECK(std::isnan(result.out.at(0, h, r, 23)) == !is_of_a_sequence(r));
      CHECK(std::isnan(result.lse[static_cast<std::size_t>(h * 31 + r)]) == !is_of_a_sequence(r));
    }
  }
  std::vector<float> lse(result.lse.begin(), result.lse.end());
  Tensor out = result.out;
  const auto verdict = [&] {
    return reference::check(packed.problem, packed.q, packed.k, packed.v, packed.rule, out, &lse);
  };
  CHECK(verdict().ok);
  CHECK(verdict().message.find("without a finite reference") == std::string::npos);
  out.at(0, 0, 0, 0) = lse[0] = 1e9f;
  CHECK(verdict().ok);
  out.at(0, 3, 14, 5) = 1e9f;  // the last row
  CHECK_FALSE(verdict().ok);
  out = result.out;
  lse[14] = 1e9f;
  CHECK_FALSE(verdict().ok);
}

TEST_CASE("varlen reference: empty sequences count as right; if all others are NaN, nothing is compared") {
  Packed packed(MaskKind::none);
  packed.rule.numbers.sinks = nullptr;
  packed.problem.sinks = false;
  const auto verdict = [&] {
    const Tensor out = random_tensor(1, 4, 31, 24, DType::f16, 4);
    return reference::check(packed.problem, packed.q, packed.k, packed.v, packed.rule, out, nullptr);
  };
  packed.seqused_q = {0, 0, 0, 0};
  CHECK(verdict().ok);
  packed.seqused_q = {3, 0, 0, 0};
  CHECK_FALSE(verdict().ok);
  packed.v.values.assign(packed.v.values.size(), std::nanf(""));
  CHECK(verdict().message.find("nothing was compared; 288 elements without a finite") != std::string::npos);
}

TEST_CASE("sequences: batched ones begin with their entry, and tables cut them") {
  AttentionProblem p{.head_dim = 8, .batch = 3, .seqlen_q = 5, .seqlen_k = 7};
  AttentionArgs tables;
  const Table used = {2, 9, -1};
  tables.seqused_k = used.data();
  std::vector<Sequence> all = reference::sequences_of(p, tables);
  REQUIRE(all.size() == 3);
  CHECK(all[2].k.entry == 2);
  CHECK(all[1].k.count == 7);  // without varlen the tables are ignored
  p.varlen = true;
  all = reference::sequences_of(p, tables);
  CHECK(all[0].k.count == 2);
  CHECK(all[1].k.count == 7);
  CHECK(all[2].k.count == 0);
  CHECK(all[2].k.entry == 2);
  CHECK(all[2].q.count == 5);
  const AttentionProblem alone = reference::problem_of(p, all[0]);
  CHECK(alone == AttentionProblem{.head_dim = 8, .batch = 1, .seqlen_q = 5, .seqlen_k = 2});
}

TEST_CASE("sequences: whatever packed tables hold, none leaves the tensor or is longer than seqlen") {
  AttentionProblem p{.head_dim = 8, .varlen = true, .batch = 3, .seqlen_q = 6, .seqlen_k = 4};
  p.total_q = 10;
  struct Case {
    Table cu_seqlens;
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;  ///< begin and count
  };
  for (const Case& c :
       {Case{{0, 4, 4, 10}, {{0, 4}, {4, 0}, {4, 6}}}, Case{{0, 8, 2, 10}, {{0, 6}, {8, 0}, {2, 6}}},
        Case{{-5, 3, 20, 30}, {{0, 3}, {3, 6}, {10, 0}}},
        Case{{9, -2147483647 - 1, 2147483647, 0}, {{9, 0}, {0, 6}, {10, 0}}}}) {
    AttentionArgs tables;
    tables.cu_seqlens_q = c.cu_seqlens.data();
    const std::vector<Sequence> all = reference::sequences_of(p, tables);
    for (std::size_t b = 0; b < 3; ++b) {
      CAPTURE(b);
      CHECK(all[b].q.entry == 0);
      CHECK(all[b].q.begin == c.rows[b].first);
      CHECK(all[b].q.count == c.rows[b].second);
      CHECK(all[b].k.entry == static_cast<std::int64_t>(b));
    }
  }
}
