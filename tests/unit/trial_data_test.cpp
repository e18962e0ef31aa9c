// Shapes, inputs and comparisons of a search.
#include <doctest/doctest.h>
#include <operation/trial_data.h>

#include <cmath>

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

constexpr std::uint16_t kOne = 0x3c00, kTwo = 0x4000, kNaN = 0x7e00, kInfinity = 0x7c00;  // float16

}  // namespace

TEST_CASE("a problem within the limits is measured as it is") {
  const AttentionProblem p = problem_of(1, 16, 16, 16384, 16384);  // FlashAttention's largest
  CHECK(within(h100(), p) == p);
  const AttentionProblem empty = problem_of(1, 1, 1, 1, 0);
  CHECK(within(h100(), empty) == empty);
}

TEST_CASE("a large batch is cut first, then heads in whole groups, the lengths untouched") {
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

TEST_CASE("lengths give way when fewer heads would leave the GPU idle") {
  const AttentionProblem decode = within(h100(), problem_of(64, 32, 8, 1, 1 << 20));
  CHECK(decode.batch * decode.heads_q >= h100().min_blocks);
  CHECK(decode.seqlen_k < 1 << 20);
  CHECK(decode.seqlen_q == 1);

  const AttentionProblem huge = within(h100(), problem_of(1, 1, 1, 2147482624, 2147482624));
  CHECK(double(huge.seqlen_q) * double(huge.seqlen_k) * 512 <= 4e12);
  CHECK(huge.seqlen_q == huge.seqlen_k);
}

TEST_CASE("whatever the memory, something remains to be measured") {
  TrialLimits tiny = h100();
  tiny.bytes = 1000;
  const AttentionProblem p = within(tiny, problem_of(7, 12, 4, 300, 500));
  CHECK(p.batch == 1);
  CHECK(p.heads_q == 3);
  CHECK(p.seqlen_q >= 1);
  CHECK(p.seqlen_k >= 1);
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
  }
}

TEST_CASE("differences beyond rounding are found, rounding is not") {
  using Values = std::vector<std::uint16_t>;
  CHECK_FALSE(difference(Values{kOne, kTwo}, Values{kOne, kTwo + 2}, 2, DType::f16).has_value());
  CHECK(difference(Values{kOne, kTwo}, Values{kOne, kTwo + 8}, 2, DType::f16).has_value());
  CHECK(*difference(Values{kOne, kOne, kOne, kOne}, Values{kOne, kOne, kOne, kTwo}, 2, DType::f16) ==
        "element 1 of row 1 is 2, not 1");
  // A tiny row is not judged by a large one's magnitude.
  CHECK(difference(Values{kTwo, kTwo, 1, 1}, Values{kTwo, kTwo, 1, 100}, 2, DType::f16).has_value());
  CHECK_FALSE(difference(Values{0, 0x8000}, Values{0x8000, 0}, 2, DType::f16).has_value());
}

TEST_CASE("NaN and infinity differ from everything") {
  using Values = std::vector<std::uint16_t>;
  CHECK(difference(Values{kOne}, Values{kNaN}, 1, DType::f16).has_value());
  CHECK(difference(Values{kNaN}, Values{kNaN}, 1, DType::f16).has_value());
  CHECK(difference(Values{kInfinity}, Values{kInfinity}, 1, DType::f16).has_value());
  CHECK(difference(Values{0xffff}, Values{0xffff}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x7f80}, Values{0x7f80}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x7f80}, Values{0x3f80}, 1, DType::bf16).has_value());
  CHECK(difference(Values{0x3f80}, Values{0x7f80}, 1, DType::bf16).has_value());
}
