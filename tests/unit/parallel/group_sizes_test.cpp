// Which groups of heads a plan chooses.
#include <doctest/doctest.h>
#include <parallel/group_sizes.h>

using namespace fa2;

namespace {

constexpr int kSms = 132;
constexpr std::int64_t kMegabyte = 1'000'000;

AttentionProblem problem_of(std::int64_t batch, std::int64_t heads_kv) {
  AttentionProblem p{.head_dim = 128, .batch = batch, .heads_q = 4 * heads_kv, .heads_kv = heads_kv};
  return p;
}

}  // namespace

TEST_CASE("group count: grows with the root of what arrives, and divides the heads or entries") {
  const AttentionProblem p = problem_of(1, 8);
  const std::int64_t queries = 1 << 20;
  CHECK(group_count(p, queries, 0, kSms) == 1);
  CHECK(group_count(p, queries, 17 * kMegabyte, kSms) == 1);
  CHECK(group_count(p, queries, 67 * kMegabyte, kSms) == 2);
  CHECK(group_count(p, queries, 150 * kMegabyte, kSms) == 2);  // 3 do not divide 8
  CHECK(group_count(p, queries, 268 * kMegabyte, kSms) == 4);
  CHECK(group_count(p, queries, 1030 * kMegabyte, kSms) == 8);
  CHECK(group_count(p, queries, 100'000 * kMegabyte, kSms) == 8);
  CHECK(group_count(problem_of(6, 8), queries, 150 * kMegabyte, kSms) == 3);
}

TEST_CASE("group count: leaves each group some tiles per SM") {
  const AttentionProblem p = problem_of(1, 8);
  CHECK(group_count(p, 128, 100'000 * kMegabyte, kSms) == 1);
  CHECK(group_count(p, 128 * 4 * kSms * 2 / 32, 100'000 * kMegabyte, kSms) == 2);
}

TEST_CASE(
    "group count of a forward: two where a quarter is worth its last wave, else as many as a backward's") {
  const AttentionProblem p = problem_of(1, 8);
  const std::int64_t quarter = 128 * 6 * kSms / 32;  // a quarter has 1.5 tiles per SM
  CHECK(forward_group_count(p, quarter, 30 * kMegabyte, kSms) == 2);
  CHECK(forward_group_count(p, quarter - 128, 30 * kMegabyte, kSms) == 1);
  CHECK(forward_group_count(p, quarter, 29 * kMegabyte, kSms) == 1);
  CHECK(forward_group_count(p, 1 << 20, 268 * kMegabyte, kSms) == 4);
  CHECK(forward_group_count(problem_of(1, 1), 1 << 20, 67 * kMegabyte, kSms) == 1);
  CHECK(forward_group_count(problem_of(4, 1), 1 << 20, 67 * kMegabyte, kSms) == 2);
}

TEST_CASE("group units: entries if there are several, else heads, also of an empty batch") {
  CHECK(group_units(problem_of(3, 8)) == 3);
  CHECK(group_units(problem_of(1, 8)) == 8);
  CHECK(group_units(problem_of(0, 8)) == 8);
}

TEST_CASE("group sizes: nearly equal, but for a forward's two groups") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(equal_sizes(8, 2) == Sizes{4, 4});
  CHECK(equal_sizes(5, 2) == Sizes{2, 3});
  CHECK(equal_sizes(2, 9) == Sizes{1, 1});
  CHECK(forward_sizes(8, 1) == Sizes{8});
  CHECK(forward_sizes(8, 2) == Sizes{2, 6});
  CHECK(forward_sizes(3, 2) == Sizes{1, 2});
  CHECK(forward_sizes(1, 2) == Sizes{1});
  CHECK(forward_sizes(8, 4) == Sizes{2, 2, 2, 2});
}
