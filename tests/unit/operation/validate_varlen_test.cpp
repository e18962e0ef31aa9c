// The rules of varlen: totals, the grid, tables, packed tensors.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

using namespace fa2;
using namespace fa2::test;

namespace {

using P = PlannedProblem;
using A = AttentionArgs;

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLongest = (std::int64_t{1} << 31) - 1024;

/// Returns a problem with both sides packed.
P problem() {
  return P({.head_dim = 64,
            .varlen = true,
            .batch = 3,
            .heads_q = 4,
            .heads_kv = 2,
            .seqlen_q = 16,
            .seqlen_k = 32,
            .total_q = 40,
            .total_k = 80},
           {RowAlignment::bytes16_any_order})
      .normalized();
}

const std::int32_t* table(std::uintptr_t address) {
  return static_cast<const std::int32_t*>(at(address));
}

A call(const P& p) {
  A a = arguments(p);
  if (p.total_q > 0) a.cu_seqlens_q = table(0x6000000);
  if (p.total_k > 0) a.cu_seqlens_k = table(0x7000000);
  return a;
}

template <class Change>
std::string broken(const Change& change) {
  return test::broken(problem(), call, change);
}

}  // namespace

TEST_CASE("validate varlen: packed and batched sides, in every combination") {
  for (int packed = 0; packed < 4; ++packed) {
    P p = problem();
    if (!(packed & 1)) p.total_q = 0;
    if (!(packed & 2)) p.total_k = 0;
    A a = call(p);
    CHECK(fields(violations_of(p)) == "");
    CHECK(fields(violations_of(p, a)) == "");
    a.seqused_q = table(0x8000000);
    a.seqused_k = table(0x9000000);
    CHECK(fields(violations_of(p, a)) == "");
    CHECK(violations_of_call(p, a).empty());
  }
}

TEST_CASE("validate varlen: totals must be lengths, and require varlen") {
  CHECK(broken([](P& p) { p.total_q = p.total_k = kLongest; }) == "");
  CHECK(broken([](P& p) { p.total_q = p.total_k = 0; }) == "");
  CHECK(broken([](P& p) { p.total_q = 1, p.total_k = 1; }) == "");  // fewer rows than seqlen
  CHECK(broken([](P& p) { p.total_q = -1; }) == "total_q: -1");
  CHECK(broken([](P& p) { p.total_k = kMin64; }) == "total_k: -9223372036854775808");
  CHECK(broken([](P& p) { p.total_q = kLongest + 1; }) == "total_q: 2147482625");
  CHECK(broken([](P& p) { p.total_k = kLongest + 1; }) == "total_k: 2147482625");
  CHECK(broken([](P& p) { p.varlen = false; }) == "total_q: 40\ntotal_k: 80");
  P p = problem();
  p.varlen = false;
  CHECK(violations_of(p).at(0).rule == "must be 0, or varlen true");
}

TEST_CASE("validate varlen: packed tiles fit one launch, where each sequence may end inside a tile") {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  const auto grid = [](std::int64_t heads, std::int64_t total, std::int64_t batch) {
    return broken([&](P& p) {
      p.heads_q = p.heads_kv = heads;
      p.total_q = total;
      p.batch = batch;
    });
  };
  CHECK(grid(1, 16, kMost - 1) == "");
  CHECK(grid(1, 16, kMost) == "heads_q * (total_q / 16 + batch): 1 * (1 + 2147483647)");
  CHECK(grid(4, 1600, (std::int64_t{1} << 29) - 101) == "");
  CHECK(grid(4, 1600, (std::int64_t{1} << 29) - 100) ==
        "heads_q * (total_q / 16 + batch): 4 * (100 + 536870812)");
  CHECK(grid(16, kLongest, 63) == "");
  CHECK(grid(16, kLongest, 64) == "heads_q * (total_q / 16 + batch): 16 * (134217664 + 64)");
  CHECK(grid(std::int64_t{1} << 62, 16, std::int64_t{1} << 62) ==
        "heads_q * (total_q / 16 + batch): 4611686018427387904 * (1 + 4611686018427387904)");
  CHECK(grid(std::int64_t{1} << 62, 16, 0) == "");  // nothing is launched
  // A large seqlen says nothing about the number of tiles.
  CHECK(broken([](P& p) { p.seqlen_q = kLongest, p.heads_q = p.heads_kv = 1024; }) == "");
  CHECK(broken([](P& p) { p.seqlen_q = kLongest, p.heads_q = p.heads_kv = 1024, p.total_q = 0; }) ==
        "batch * heads_q * ceil(seqlen_q / 16): 3 * 1024 * 134217664");
}

TEST_CASE("validate varlen: tables are required if needed, and rejected otherwise") {
  CHECK(broken([](P&, A& a) { a.cu_seqlens_q = nullptr; }) == "cu_seqlens_q: null");
  CHECK(broken([](P&, A& a) { a.cu_seqlens_k = nullptr; }) == "cu_seqlens_k: null");
  CHECK(broken([](P& p, A& a) { p.total_q = 0, a.seqused_q = table(0x8000000); }) == "cu_seqlens_q: given");
  CHECK(broken([](P& p, A&) { p.total_k = 0; }) == "cu_seqlens_k: given");
  CHECK(broken([](P& p, A& a) {
          p.varlen = false, p.total_q = p.total_k = 0;
          a.seqused_q = a.seqused_k = table(0x8000000);
        }) == "cu_seqlens_q: given\ncu_seqlens_k: given\nseqused_q: given\nseqused_k: given");
  CHECK(broken([](P& p, A& a) { p.batch = 0, a = A{}; }) == "");
  CHECK(broken([](P& p, A& a) { p.seqlen_q = 0, a = A{}; }) == "");

  P p = problem();
  const A a = call(p);
  p.total_q = 0;
  CHECK(violations_of(p, a).at(0).rule == "must be null, or the problem's total_q above 0");
}

TEST_CASE("validate varlen: tables are int32 and must not overlap outputs") {
  CHECK(broken([](P&, A& a) { a.cu_seqlens_q = table(0x6000002); }) == "cu_seqlens_q: 0x6000002");
  CHECK(broken([](P&, A& a) { a.seqused_k = table(0x6000001); }) == "seqused_k: 0x6000001");
  const std::uintptr_t lse = 0x5000000;  // (heads, total rows): 4 * 40 floats
  CHECK(broken([&](P&, A& a) { a.cu_seqlens_q = table(lse - 16); }) == "");
  CHECK(broken([&](P&, A& a) { a.cu_seqlens_q = table(lse - 12); }).starts_with("lse: "));
  CHECK(broken([&](P&, A& a) { a.seqused_q = table(lse - 12); }) == "");
  CHECK(broken([&](P&, A& a) { a.seqused_q = table(lse - 8); }).starts_with("lse: "));
  CHECK(broken([&](P&, A& a) { a.seqused_k = table(lse + 4 * 4 * 40); }) == "");
  CHECK(broken([&](P&, A& a) { a.seqused_k = table(lse + 4 * 4 * 40 - 4); }).starts_with("lse: "));
  CHECK(broken([&](P&, A& a) { a.cu_seqlens_k = a.cu_seqlens_q; }) == "");  // q and k have equal lengths
}

TEST_CASE("validate varlen: rows of packed tensors must not overlap, and batch strides are ignored") {
  CHECK(broken([](P&, A& a) {
          a.q_strides.batch = a.k_strides.batch = a.v_strides.batch = a.out_strides.batch = kMin64;
        }) == "");
  CHECK(broken([](P&, A& a) { a.out_strides.batch = 0; }) == "");
  CHECK(broken([](P&, A& a) { a.q_strides.batch = 3; }) == "");
  CHECK(broken([](P&, A& a) { a.out_strides.row = 248; }) == "out_strides.row: 248");
  CHECK(broken([](P&, A& a) { a.out_strides.head = 0; }) == "out_strides.head: 0");
  CHECK(broken([](P&, A& a) { a.q_strides.row = 4; }) == "q_strides.row: 4");
  // The last row of O is the last row of all sequences.
  const std::uintptr_t bytes = 40 * 4 * 64 * 2;
  CHECK(broken([&](P&, A& a) { a.out = at(0x1000000 - bytes); }) == "");
  CHECK(broken([&](P&, A& a) { a.out = at(0x1000000 - bytes + 16); }).starts_with("out: "));
  CHECK(broken([&](P&, A& a) { a.out = at(0x1000000 + bytes); }) == "");
  CHECK(broken([&](P&, A& a) { a.out = at(0x1000000 + bytes - 16); }).starts_with("out: "));

  P p = problem();
  A a = call(p);
  a.q_strides.batch = 3;
  a.out_strides.batch = -1;
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);
  a.k_strides.row += 4;
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::element);
}
