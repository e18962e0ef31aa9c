// The head dims that problems may have, and values that are columns of keys.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>

using namespace fa2;
using namespace fa2::test;

namespace {

using P = PlannedProblem;

P problem() {
  P p;
  p.head_dim = 64;
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 32;
  return p.normalized();
}

template <class Change>
std::string broken_problem(Change change) {
  P p = problem();
  change(p);
  return fields(violations_of(p));
}

}  // namespace

TEST_CASE("validate: head dims") {
  for (const std::int32_t dim : {8, 16, 120, 256, 264, 512}) {
    CHECK(broken_problem([&](P& p) { p.head_dim = p.head_dim_v = dim; }) == "");
  }
  CHECK(broken_problem([](P& p) { p.head_dim = 576, p.head_dim_v = 512; }) == "");
  CHECK(broken_problem([](P& p) { p.head_dim = 7; }) == "head_dim: 7");
  CHECK(broken_problem([](P& p) { p.head_dim = 584; }) == "head_dim: 584");
  CHECK(broken_problem([](P& p) { p.head_dim_v = 520; }) == "head_dim_v: 520");
  CHECK(broken_problem([](P& p) { p.head_dim = 576, p.head_dim_v = 0; }) == "head_dim_v: 576");
  CHECK(broken_problem([](P& p) { p.head_dim = -8; }) == "head_dim: -8");
  CHECK(broken_problem([](P& p) { p.head_dim_v = 12; }) == "head_dim_v: 12");
  CHECK(broken_problem([](P& p) { p.head_dim = p.head_dim_v = 0; }) == "head_dim: 0");
}

TEST_CASE("validate: gradients of heads up to 256") {
  P p = problem();
  p.head_dim = p.head_dim_v = 256;
  CHECK(violations_of_backward(p).empty());
  p.head_dim = 264;
  CHECK(fields(violations_of_backward(p)) == "head_dim: 264");
  p.head_dim_v = 512;
  CHECK(fields(violations_of_backward(p)) == "head_dim: 264\nhead_dim_v: 512");
}

TEST_CASE("validate: values in keys") {
  CHECK(broken_problem([](P& p) { p.values_in_keys = true; }) == "");
  CHECK(broken_problem([](P& p) { p.values_in_keys = true, p.head_dim_v = 72; }) == "head_dim_v: 72");
  P p = problem();
  p.values_in_keys = true;
  CHECK(fields(violations_of_backward(p)) == "values_in_keys: 1");
  p.head_dim = 576, p.head_dim_v = 512;
  AttentionArgs a = arguments(p);
  CHECK(a.v == a.k);
  CHECK(violations_of(p, a).empty());
  a.v_strides.row += 8;
  CHECK(violations_of(p, a).at(0).field == "v");
  a.v_strides.row -= 8;
  a.v = static_cast<const char*>(a.k) + 16;
  CHECK(violations_of(p, a).at(0).field == "v");
}
