// A search's shapes, inputs and comparisons.
#include <doctest/doctest.h>
#include <planning/trials/trial_data.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using namespace fa2;

AttentionProblem problem_of(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv,
                            std::int64_t seqlen_q, std::int64_t seqlen_k) {
  AttentionProblem p;
  p.head_dim = 128;
  p.batch = batch;
  p.heads_q = heads_q;
  p.heads_kv = heads_kv;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  return p.normalized();
}

TrialLimits h100() {
  TrialLimits limits;
  limits.min_blocks = 4 * 2 * 132;
  return limits;
}

std::int64_t sum_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Returns self-attention over packed documents.
AttentionProblem packed(std::int64_t batch, std::int64_t total, std::int64_t longest) {
  AttentionProblem p = problem_of(batch, 16, 16, longest, longest);
  p.varlen = true;
  p.total_q = p.total_k = total;
  return p;
}

constexpr std::uint16_t kOne = 0x3c00, kTwo = 0x4000, kNaN = 0x7e00, kInfinity = 0x7c00;  // float16

}  // namespace

TEST_CASE("a problem within the limits is measured as it is") {
  const AttentionProblem p = problem_of(1, 16, 16, 16384, 16384);  // FlashAttention's largest
  CHECK(within(h100(), p) == p);
  const AttentionProblem empty = problem_of(1, 1, 1, 1, 0);
  CHECK(within(h100(), empty) == empty);
}

TEST_CASE("a large batch is cut first, then heads in whole groups; lengths stay") {
  const AttentionProblem small = within(h100(), problem_of(512, 32, 8, 4096, 4096));
  CHECK(small.seqlen_q == 4096);
  CHECK(small.batch * small.heads_q * 32 >= h100().min_blocks);
  CHECK(small.heads_q == 4 * small.heads_kv);
  CHECK(small.batch < 512);

  const AttentionProblem one_batch = within(h100(), problem_of(1, 512, 128, 16384, 16384));
  CHECK(one_batch.batch == 1);
  CHECK(one_batch.heads_q < 512);
  CHECK(one_batch.heads_q == 4 * one_batch.heads_kv);
}

TEST_CASE("lengths are cut if fewer heads would leave the GPU idle") {
  const AttentionProblem decode = within(h100(), problem_of(64, 32, 8, 1, 1 << 20));
  CHECK(decode.batch * decode.heads_q >= h100().min_blocks);
  CHECK(decode.seqlen_k < 1 << 20);
  CHECK(decode.seqlen_q == 1);

  const AttentionProblem huge = within(h100(), problem_of(1, 1, 1, 2147482624, 2147482624));
  CHECK(double(huge.seqlen_q) * double(huge.seqlen_k) * 512 <= 4e12);
  CHECK(huge.seqlen_q == huge.seqlen_k);
}

TEST_CASE("with any memory, something remains to be measured") {
  TrialLimits tiny = h100();
  tiny.bytes = 1000;
  const AttentionProblem p = within(tiny, problem_of(7, 12, 4, 300, 500));
  CHECK(p.batch == 1);
  CHECK(p.heads_q == 3);
  CHECK(p.seqlen_q >= 1);
  CHECK(p.seqlen_k >= 1);
}

TEST_CASE("a mix has all the rows, one longest sequence and many others, always the same") {
  for (const std::int64_t batch : {1, 2, 3, 64, 1000}) {
    for (const std::int64_t longest : {1, 2, 100, 4096}) {
      for (const std::int64_t total : {1, 2, 99, 100, 101, 4096, 5000, 32768, 3000000}) {
        CAPTURE(batch);
        CAPTURE(longest);
        CAPTURE(total);
        const auto lengths = mix_of(batch, total, longest);
        CHECK(lengths == mix_of(batch, total, longest));
        REQUIRE(lengths.size() == static_cast<std::size_t>(batch));
        CHECK(sum_of(lengths) == std::min(total, batch * longest));
        CHECK(std::ranges::min(lengths) >= 0);
        CHECK(std::ranges::max(lengths) <= longest);
        if (total >= longest) CHECK(std::ranges::max(lengths) == longest);
      }
    }
  }
  CHECK(mix_of(3, 0, 77) == std::vector<std::int64_t>{77, 77, 77});  // batched
  CHECK(mix_of(0, 0, 77).empty());
  CHECK(mix_of(0, 5, 77).empty());

  // Like documents: many different lengths, and a median below the mean.
  auto lengths = mix_of(64, 32768, 8192);
  std::ranges::sort(lengths);
  const std::int64_t mean = (32768 - 8192) / 63;
  CHECK(lengths[32] < mean);
  CHECK(lengths[32] > mean / 3);
  CHECK(lengths[60] > 2 * mean);
  CHECK(std::unique(lengths.begin(), lengths.end()) - lengths.begin() > 50);
}

TEST_CASE("borders of lengths") {
  CHECK(borders_of({}) == std::vector<std::int32_t>{0});
  CHECK(borders_of({3, 0, 4}) == std::vector<std::int32_t>{0, 3, 3, 7});
}

TEST_CASE("pairs of a mix are those of its sequences") {
  AttentionProblem p = problem_of(3, 16, 16, 100, 100);
  CHECK(pairs_of_mix(p) == 3 * 100 * 100);
  p.varlen = true;
  CHECK(pairs_of_mix(p) == 3 * 100 * 100);
  p.total_q = p.total_k =
      100;  // one sequence has all rows, or three share them: never fewer pairs than with equal lengths
  CHECK(pairs_of_mix(p) >= 3 * 33 * 33);
  CHECK(pairs_of_mix(p) <= 100 * 100);
  p.total_k = 0;
  CHECK(pairs_of_mix(p) == 100 * 100);
  p.mask = MaskKind::causal_top_left;
  p.total_q = 300;
  CHECK(pairs_of_mix(p) == 3 * 5050);
}

TEST_CASE("packed sequences become fewer before they become shorter, whatever their mean") {
  const AttentionProblem fits = packed(64, 32768, 8192);
  CHECK(within(h100(), fits) == fits);
  const AttentionProblem loose = packed(64, 32768, 1 << 20);  // a limit that no sequence reaches
  CHECK(within(h100(), loose) == loose);

  const AttentionProblem few = within(h100(), packed(4096, std::int64_t{4096} * 512, 8192));
  CHECK(few.batch < 4096);
  CHECK(few.total_q == few.batch * 512);
  CHECK(few.total_k == few.total_q);
  CHECK(few.seqlen_q == 8192);
  CHECK(few.heads_q == 16);

  TrialLimits tiny = h100();
  tiny.bytes = 1000;
  const AttentionProblem least = within(tiny, packed(7, 300, 100));
  CHECK(least.batch == 1);
  CHECK(least.total_q >= 1);  // still packed
  CHECK(least.total_k >= 1);
  CHECK(least.seqlen_q >= 1);
  CHECK(least.seqlen_q <= least.total_q);

  // Rows beyond the sequences' capacity are not measured.
  CHECK(within(h100(), packed(4, 1000, 100)).total_q == 400);
  AttentionProblem queries = packed(8, 800, 100);
  queries.total_k = 0;
  queries.seqlen_k = std::int64_t{1} << 24;
  const AttentionProblem shorter = within(h100(), queries);
  CHECK(shorter.seqlen_k < queries.seqlen_k);
  CHECK(shorter.total_k == 0);
}

TEST_CASE("normal values are finite, spread and always the same") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto values = normal_values(10000, dtype);
    CHECK(values == normal_values(10000, dtype));
    CHECK_FALSE(difference(values, values, 100, dtype).has_value());
    int negative = 0, below_one = 0;
    const std::uint16_t one = dtype == DType::f16 ? kOne : 0x3f80;
    for (const std::uint16_t bits : values) {
      negative += bits >> 15;
      below_one += (bits & 0x7fff) < one ? 1 : 0;
    }
    CHECK(negative > 4700);
    CHECK(negative < 5300);
    CHECK(below_one > 6600);  // 68 % of a normal distribution
    CHECK(below_one < 7000);
    int peaked_below_one = 0;
    for (const std::uint16_t bits : normal_values(10000, dtype, kPeakedQueries))
      peaked_below_one += (bits & 0x7fff) < one ? 1 : 0;
    CHECK(peaked_below_one > 1850);  // 20 % within a quarter of the deviation
    CHECK(peaked_below_one < 2100);
  }
}

TEST_CASE("differences beyond rounding are found, rounding is not") {
  using Values = std::vector<std::uint16_t>;
  CHECK_FALSE(difference(Values{kOne, kTwo}, Values{kOne, kTwo + 2}, 2, DType::f16).has_value());
  CHECK(difference(Values{kOne, kTwo}, Values{kOne, kTwo + 8}, 2, DType::f16).has_value());
  CHECK(*difference(Values{kOne, kOne, kOne, kOne}, Values{kOne, kOne, kOne, kTwo}, 2, DType::f16) ==
        "element 1 of row 1 is 2, not 1");
  // A large row does not loosen the tolerance of a small one.
  CHECK(difference(Values{kTwo, kTwo, 1, 1}, Values{kTwo, kTwo, 1, 100}, 2, DType::f16).has_value());
  CHECK_FALSE(difference(Values{0, 0x8000}, Values{0x8000, 0}, 2, DType::f16).has_value());
}

TEST_CASE("NaN and infinity differ from every value") {
  using Values = std::vector<std::uint16_t>;
  CHECK(difference(Values{kInfinity}, Values{kInfinity}, 1, DType::f16).has_value());
  CHECK_FALSE(difference(Values{kInfinity, kOne}, Values{kInfinity, kOne}, 2, DType::f16, true).has_value());
  CHECK(difference(Values{kInfinity, kOne}, Values{kInfinity, kTwo}, 2, DType::f16, true).has_value());
  CHECK(difference(Values{kInfinity}, Values{kUnwritten}, 1, DType::f16, true).has_value());
  CHECK(difference(Values{kOne}, Values{kInfinity}, 1, DType::f16, true).has_value());
  CHECK(difference(Values{kOne}, Values{kNaN}, 1, DType::f16).has_value());
  CHECK(difference(Values{kNaN}, Values{kNaN}, 1, DType::f16).has_value());
  CHECK(difference(Values{kInfinity}, Values{kInfinity}, 1, DType::f16).has_value());
  CHECK(difference(Values{0xffff}, Values{0xffff}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x7f80}, Values{0x7f80}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x7f80}, Values{0x3f80}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x3f80}, Values{0x7f80}, 1, DType::bf16).has_value());
}
