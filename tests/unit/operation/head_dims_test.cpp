// The head dims that problems may have, and values that are columns of keys.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>
#include <tests/unit/operation/broken_problem.h>

using namespace fa2;
using namespace fa2::test;

using P = PlannedProblem;

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
  P p = valid_problem();
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
  P p = valid_problem();
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
