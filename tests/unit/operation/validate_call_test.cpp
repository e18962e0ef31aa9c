// A problem and its arguments, checked together.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>

#include <cmath>
#include <limits>

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.seqlen_q = p.seqlen_k = 16;
  return p.normalized();
}

}  // namespace

TEST_CASE("validate: one error lists what is wrong with the problem and with the arguments") {
  AttentionProblem p = problem();
  AttentionArgs a = arguments(p);
  CHECK(violations_of_call(p, a).empty());
  CHECK_NOTHROW(require_valid_problem_of(p, a));
  a.k = nullptr;
  a.softmax_scale = INFINITY;
  CHECK_NOTHROW(require_valid_problem_of(p, a));  // its plan reports this
  p.dtype = static_cast<DType>(9);
  p.head_dim = 7;
  const std::string text = lines(violations_of_call(p, a));
  for (const char* part : {"dtype = 9", "head_dim = 7", "k = null", "softmax_scale = inf"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(require_valid_problem_of(p, a), doctest::Contains("k = null"), InvalidRequest);
}

TEST_CASE("validate: if extents make computing impossible, scalars are checked all the same") {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t extent : {Limits::min(), std::int64_t{-1}, Limits::max()}) {
    AttentionProblem p = problem();
    AttentionArgs a = arguments(p);
    a.softmax_scale = INFINITY;
    p.batch = p.heads_q = p.seqlen_k = extent;
    const std::string text = lines(violations_of_call(p, a));
    CHECK(text.find("seqlen_k = ") != std::string::npos);
    CHECK(text.find("softmax_scale = inf") != std::string::npos);
  }
}
