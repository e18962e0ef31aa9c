// The rules of paged KV.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>

#include <cstdint>
#include <string>
#include <type_traits>

using namespace fa2;
using namespace fa2::test;
using P = PlannedProblem;
using A = AttentionArgs;

namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1024;

P problem() {
  return P({.head_dim = 64,
            .varlen = true,
            .page_size = 16,
            .batch = 3,
            .heads_q = 4,
            .heads_kv = 2,
            .seqlen_q = 1,
            .seqlen_k = 100,
            .page_count = 50},
           {RowAlignment::bytes16_any_order})
      .normalized();
}

A call(const P& p) {
  A a = arguments(p);
  a.page_table = static_cast<const std::int32_t*>(at(0x6000000));
  a.page_table_stride = 7;
  return a;
}

template <class Change>
std::string broken(const Change& change) {
  return test::broken(problem(), call, change);
}

}  // namespace

TEST_CASE("validate pages: any size and number, for sequences whose lengths the device knows") {
  for (const std::int32_t size : {1, 7, 16, 2147483647})
    CHECK(broken([&](P& p) { p.page_size = size; }) == "");
  CHECK(broken([](P& p) { p.page_count = kMost; }) == "");
  CHECK(broken([](P& p) { p.page_size = -1; }) == "page_size: -1\npage_count: 50");
  CHECK(broken([](P& p) { p.page_size = 0; }) == "page_count: 50");
  CHECK(broken([](P& p) { p.page_count = 0; }) == "page_count: 0");
  CHECK(broken([](P& p) { p.page_count = kMost + 1; }) == "page_count: 2147482625");
  CHECK(broken([](P& p) { p.varlen = false; }) == "page_size: 16");
  CHECK(broken([](P& p) { p.total_k = 80; }) == "total_k: 80");
  CHECK(broken([](P& p) { p.total_q = 3; }) == "");
}

TEST_CASE("validate pages: the table is required with pages, and rejected without") {
  CHECK(broken([](P&, A&) {}) == "");
  CHECK(broken([](P&, A& a) { a.page_table_stride = 0; }) == "");  // one row for all sequences
  CHECK(broken([](P&, A& a) { a.page_table = nullptr; }) == "page_table: null");
  CHECK(broken([](P&, A& a) { a.page_table_stride = -1; }) == "page_table_stride: -1");
  CHECK(broken([](P&, A& a) { a.page_table_stride = std::int64_t{1} << 31; }) ==
        "page_table_stride: 2147483648");
  CHECK(broken([](P& p, A&) { p.page_size = 0, p.page_count = 0; }) ==
        "page_table: given\npage_table_stride: 7");
  CHECK(broken([](P& p, A& a) { p.seqlen_k = 0, a.page_table = nullptr; }) == "");
  CHECK(broken([](P&, A& a) { a.out = const_cast<std::int32_t*>(a.page_table); }) != "");
}

TEST_CASE("validate pages: gradients are not supported") {
  const auto found = violations_of_backward(problem(), {});
  CHECK(fields(found) == "page_size: 16");
}
