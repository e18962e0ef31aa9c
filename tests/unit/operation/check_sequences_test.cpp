// What FA2_CHECK=1 finds in tables of sequences: each rule on both sides of its limit, and when it applies.
#include <api/plan.h>
#include <doctest/doctest.h>
#include <operation/rules/check_sequences.h>
#include <planning/forward.h>
#include <runtime/device.h>
#include <tests/support/fake_kernels.h>
#include <tests/support/request.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

using Table = std::vector<std::int32_t>;

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();

/// Checks tables of packed queries: at most 10 in a sequence, 30 in all.
std::string packed(const Table& cu_seqlens, const Table& seqused = {}) {
  return lines(
      violations_of({.name = "q", .total = 30, .longest = 10, .cu_seqlens = cu_seqlens, .seqused = seqused}));
}

/// Checks a table of batched keys: at most 10 in a sequence.
std::string batched(const Table& seqused) {
  return lines(violations_of({.name = "k", .longest = 10, .seqused = seqused}));
}

AttentionProblem problem() {
  return AttentionProblem{.head_dim = 64,
                          .varlen = true,
                          .batch = 2,
                          .seqlen_q = 10,
                          .seqlen_k = 10,
                          .total_q = 12,
                          .total_k = 20}
      .normalized();
}

/// A plan on the interpreter with a kernel that does nothing.
class IdlePlan {
 public:
  explicit IdlePlan(bool checks_tables) {
    auto plan = std::make_shared<Plan>();
    plan->problem = {problem(), {}};
    plan->device = kInterpreterDevice;
    plan->checks_tables = checks_tables;
    plan->add(forward_step(problem(), {}, kernel_, 4));
    plan_ = std::move(plan);
  }

  /// Returns what the plan finds wrong with the call's tables; "ran" if it ran.
  std::string run(const Table& cu_seqlens_q, const Table& cu_seqlens_k, const Table& seqused_q = {}) const {
    AttentionArgs args = arguments(problem());
    args.cu_seqlens_q = cu_seqlens_q.data();
    args.cu_seqlens_k = cu_seqlens_k.data();
    if (!seqused_q.empty()) args.seqused_q = seqused_q.data();
    const int before = kernel_->launches;
    try {
      AttentionPlan(plan_).run(args);
    } catch (const InvalidRequest& error) {
      CHECK(kernel_->launches == before);
      return fields(error.violations());
    }
    CHECK(kernel_->launches == before + 1);
    return "ran";
  }

 private:
  std::shared_ptr<const IdleKernel> kernel_ = std::make_shared<const IdleKernel>();
  std::shared_ptr<const Plan> plan_;
};

}  // namespace

TEST_CASE("tables of sequences: valid ones") {
  CHECK(packed({0, 10, 20, 30}) == "");
  CHECK(packed({0, 0, 3, 3, 13, 13}) == "");  // empty sequences, and unused rows at the end
  CHECK(packed({7, 8}) == "");                // and at the beginning
  CHECK(packed({30, 30}) == "");
  CHECK(packed({0, 5, 15}, {5, 0}) == "");
  CHECK(packed({3, 22, 30}, {10, 8}) == "");  // more rows than seqlen, but no more of them count
  CHECK(packed({}, {}) == "");
  CHECK(batched({0, 10, 3}) == "");
}

TEST_CASE("tables of sequences: borders must lie inside the tensor and ascend") {
  CHECK(packed({-1, 5}) == "cu_seqlens_q[0] = -1, must be at least 0\n");
  CHECK(packed({kLeast, 0}) == "cu_seqlens_q[0] = -2147483648, must be at least 0\n");
  CHECK(packed({25, 31}) == "cu_seqlens_q[1] = 31, must be at most total_q = 30\n");
  CHECK(packed({0, kMost}) == "cu_seqlens_q[1] = 2147483647, must be at most total_q = 30\n");
  CHECK(packed({0, 5, 4, 9}) == "cu_seqlens_q[2] = 4, must be at least cu_seqlens_q[1] = 5\n");
  CHECK(packed({0, 5, 16}) ==
        "cu_seqlens_q[2] = 16, must be at most cu_seqlens_q[1] = 5 and seqlen_q = 10 together\n");
}

TEST_CASE("tables of sequences: the first invalid entry, and how many more there are") {
  CHECK(packed({-1, -2, 3}) == "cu_seqlens_q[0] = -1, must be at least 0; 1 more is wrong\n");
  CHECK(packed({0, 31, 32, 33}) == "cu_seqlens_q[1] = 31, must be at most total_q = 30; 2 more are wrong\n");
  CHECK(batched({3, 11, -1, 10, 12}) ==
        "seqused_k[1] = 11, must be in 0..10, the length of its sequence; 2 more are wrong\n");
}

TEST_CASE(
    "tables of sequences: seqused must not exceed the sequence, whose borders are clamped as in kernels") {
  CHECK(packed({0, 5, 15}, {6, 10}) == "seqused_q[0] = 6, must be in 0..5, the length of its sequence\n");
  CHECK(packed({0, 5, 15}, {5, -1}) == "seqused_q[1] = -1, must be in 0..10, the length of its sequence\n");
  CHECK(packed({0, 5, 5}, {5, 1}) == "seqused_q[1] = 1, must be in 0..0, the length of its sequence\n");
  CHECK(batched({-1}) == "seqused_k[0] = -1, must be in 0..10, the length of its sequence\n");
  CHECK(packed({0, 20}, {11}) == "seqused_q[0] = 11, must be in 0..10, the length of its sequence\n");
  // The first entries of both tables are reported.
  const std::string both = packed({-1, 20, 25}, {10, 6});
  CHECK(both.starts_with("cu_seqlens_q[0] = -1, "));
  CHECK(both.ends_with("seqused_q[1] = 6, must be in 0..5, the length of its sequence\n"));
  CHECK(packed({20, 40, 30}, {10, 1})
            .ends_with("seqused_q[1] = 1, must be in 0..0, the length of its sequence\n"));
}

TEST_CASE("tables of sequences: a plan that checks them launches nothing if they are wrong") {
  const IdlePlan plan(true);
  CHECK(plan.run({0, 4, 12}, {0, 10, 20}) == "ran");
  CHECK(plan.run({0, 4, 12}, {0, 10, 20}, {4, 8}) == "ran");
  CHECK(plan.run({0, 4, 13}, {0, 10, 20}) == "cu_seqlens_q[2]: 13");
  CHECK(plan.run({0, 4, 3}, {5, 4, 3}, {5, 0}) == "cu_seqlens_q[2]: 3\nseqused_q[0]: 5\ncu_seqlens_k[1]: 4");
}

TEST_CASE("tables of sequences: other plans do not read them") {
  CHECK(IdlePlan(false).run({5, 4, 3}, {-1, 100, 0}) == "ran");
}
