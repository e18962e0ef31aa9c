// Every rule of problems and arguments, on both sides of its limit.
#include <doctest/doctest.h>
#include <operation/operands/overlap.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>
#include <tests/unit/operation/broken_problem.h>

#include <bitset>
#include <cmath>
#include <limits>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();

template <class Change>
std::string broken_args(Change change) {
  PlannedProblem p = valid_problem();
  AttentionArgs a = arguments(p);
  change(p, a);
  return fields(violations_of(p, a));
}

using P = PlannedProblem;
using A = AttentionArgs;

}  // namespace

TEST_CASE("validate: a valid problem and valid arguments") {
  CHECK(violations_of(valid_problem()).empty());
  CHECK(violations_of(valid_problem(), arguments(valid_problem())).empty());
  CHECK_NOTHROW(require_valid(valid_problem()));
  CHECK_NOTHROW(require_valid(valid_problem(), arguments(valid_problem())));
}

TEST_CASE("validate: enumerations in range") {
  CHECK(broken_problem([](P& p) { p.dtype = static_cast<DType>(2); }) == "dtype: 2");
  CHECK(broken_problem([](P& p) { p.mask = static_cast<MaskKind>(3); }) == "mask: 3");
  CHECK(broken_problem([](P& p) { p.row_alignment = static_cast<RowAlignment>(3); }) == "row_alignment: 3");
}

TEST_CASE("validate: batch and heads") {
  CHECK(broken_problem([](P& p) { p.batch = 0; }) == "");
  CHECK(broken_problem([](P& p) { p.batch = -1; }) == "batch: -1");
  CHECK(broken_problem([](P& p) { p.heads_q = 0; }) == "heads_q: 0");
  CHECK(broken_problem([](P& p) { p.heads_kv = 3; }) == "heads_kv: 3");
  CHECK(broken_problem([](P& p) { p.heads_kv = -2; }) == "heads_kv: -2");
  CHECK(broken_problem([](P& p) { p.heads_kv = 8; }) == "heads_kv: 8");
  CHECK(broken_problem([](P& p) { p.heads_kv = 0; }) == "");
  CHECK(broken_problem([](P& p) { p.heads_q = kMin64, p.heads_kv = -1; }) ==
        "heads_q: -9223372036854775808\nheads_kv: -1");
}

TEST_CASE("validate: sequence lengths") {
  constexpr std::int64_t kLongest = (std::int64_t{1} << 31) - 1024;
  CHECK(broken_problem([](P& p) { p.seqlen_q = p.seqlen_k = 0; }) == "");
  CHECK(broken_problem([](P& p) { p.seqlen_q = p.seqlen_k = kLongest; }) == "");
  CHECK(broken_problem([](P& p) { p.seqlen_q = -1; }) == "seqlen_q: -1");
  CHECK(broken_problem([](P& p) { p.seqlen_q = kLongest + 1; }) == "seqlen_q: 2147482625");
  CHECK(broken_problem([](P& p) { p.seqlen_k = kLongest + 1; }) == "seqlen_k: 2147482625");
}

TEST_CASE("validate: the grid with the smallest tile fits one launch") {
  CHECK(broken_problem([](P& p) { p.batch = (std::int64_t{1} << 29) - 1, p.seqlen_q = 16; }) == "");
  CHECK(broken_problem([](P& p) { p.batch = std::int64_t{1} << 29, p.seqlen_q = 16; }) ==
        "batch * heads_q * ceil(seqlen_q / 16): 536870912 * 4 * 1");
  CHECK(broken_problem([](P& p) { p.batch = p.heads_q = p.heads_kv = std::int64_t{1} << 62; }) ==
        "batch * heads_q * ceil(seqlen_q / 16): 4611686018427387904 * 4611686018427387904 * 1");
  CHECK(broken_problem([](P& p) { p.batch = 0, p.heads_q = p.heads_kv = kMax64; }) == "");
}

TEST_CASE("validate: everything wrong with a problem is listed at once") {
  P p = valid_problem();
  p.dtype = static_cast<DType>(7);
  p.head_dim = 7;
  p.heads_kv = 3;
  p.seqlen_k = -5;
  CHECK(fields(violations_of(p)) == "dtype: 7\nhead_dim: 7\nheads_kv: 3\nseqlen_k: -5");
  CHECK_THROWS_AS(require_valid(p), InvalidRequest);
}

TEST_CASE("validate: null pointers") {
  CHECK(broken_args([](P&, A& a) { a.q = nullptr; }) == "q: null");
  CHECK(broken_args([](P&, A& a) { a.k = a.v = nullptr; }) == "k: null\nv: null");
  CHECK(broken_args([](P&, A& a) { a.out = nullptr; }) == "out: null");
  CHECK(broken_args([](P&, A& a) { a.lse = nullptr; }) == "");
  CHECK(broken_args([](P& p, A& a) { p.seqlen_k = 0, a.k = a.v = nullptr; }) == "");
  CHECK(broken_args([](P& p, A& a) { p.seqlen_k = 0, a.out = nullptr; }) == "out: null");
  CHECK(broken_args([](P& p, A& a) { p.batch = 0, a = A{}; }) == "");
  CHECK(broken_args([](P& p, A& a) { p.seqlen_q = 0, a = A{}; }) == "");
}

TEST_CASE("validate: scalars") {
  for (const float scale : {0.0f, -2.5f, 1e30f})
    CHECK(broken_args([&](P&, A& a) { a.softmax_scale = scale; }) == "");
  CHECK(broken_args([](P&, A& a) { a.softmax_scale = std::nanf(""); }) == "softmax_scale: nan");
  CHECK(broken_args([](P&, A& a) { a.softmax_scale = -HUGE_VALF; }) == "softmax_scale: -inf");
  CHECK(broken_args([](P&, A& a) { a.empty_row_lse = static_cast<EmptyRowLse>(2); }) == "empty_row_lse: 2");
  CHECK(broken_args([](P& p, A& a) { p.batch = 0, a.softmax_scale = HUGE_VALF; }) == "softmax_scale: inf");
}

TEST_CASE("validate: 16-byte rows, and the alternative is named") {
  CHECK(broken_args([](P&, A& a) { a.q = at(0x1000008); }) == "q: 0x1000008");
  CHECK(broken_args([](P&, A& a) { a.v_strides.row = 132; }) == "v_strides.row: 132");
  CHECK(broken_args([](P&, A& a) { a.k_strides.head = -4, a.k_strides.batch = 4100; }) ==
        "k_strides.batch: 4100\nk_strides.head: -4");
  CHECK(broken_args([](P& p, A& a) { p.batch = 1, a.k_strides.batch = 3; }) == "");

  P p = valid_problem();
  A a = arguments(p);
  a.q = at(0x1000002);
  CHECK(violations_of(p, a).at(0).rule.find("RowAlignment::element") != std::string::npos);
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::element);
  p.row_alignment = RowAlignment::element;
  CHECK(violations_of(p, a).empty());
  a.q = at(0x1000001);
  CHECK(fields(violations_of(p, a)) == "q: 0x1000001");
}

TEST_CASE("validate: options_kept_by considers only what a kernel accesses") {
  P p = valid_problem();
  A a = arguments(p);
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);
  a.out_strides.row = 260;
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::element);
  p.seqlen_q = 1;
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);
  a.k = at(0x2000002);
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::element);
  p.seqlen_k = 0;
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);
  p.batch = 0, a.q = at(0x1000001);
  CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);

  P defaults = valid_problem();  // heads_kv 0 means heads_q, so K's head stride is used
  defaults.heads_kv = 0;
  A odd = arguments(defaults);
  odd.k_strides.head = 4;
  CHECK(options_kept_by(defaults, operands_of(defaults, odd)).row_alignment == RowAlignment::element);
}

TEST_CASE("validate: strides of 0 and below do not satisfy bytes16") {
  for (const std::int64_t stride : {0, -64}) {
    P p = valid_problem();
    A a = arguments(p);
    a.k_strides.row = stride;
    p.row_alignment = RowAlignment::bytes16;
    CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16_any_order);
    CHECK(fields(violations_of(p, a)) == "k_strides.row: " + std::to_string(stride));
    CHECK(violations_of(p, a).at(0).rule.find("bytes16_any_order") != std::string::npos);
    p.row_alignment = RowAlignment::bytes16_any_order;
    CHECK(violations_of(p, a).empty());
    p.seqlen_k = 1;
    CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::bytes16);
    a.q = at(0x1000008);
    CHECK(options_kept_by(p, operands_of(p, a)).row_alignment == RowAlignment::element);
    CHECK(fields(violations_of(p, a)) == "q: 0x1000008");
  }
}

TEST_CASE("validate: lse") {
  CHECK(broken_args([](P&, A& a) { a.lse = reinterpret_cast<float*>(at(0x5000002)); }) == "lse: 0x5000002");
  CHECK(broken_args([](P&, A& a) { a.lse = reinterpret_cast<float*>(at(0xfffffffffffffff0)); }) ==
        "lse: 0xfffffffffffffff0");
  const std::uintptr_t last = 0x1000000 + 2 * 16 * 4 * 64 * 2 - 4;  // the last float of Q
  CHECK(broken_args([&](P&, A& a) { a.lse = reinterpret_cast<float*>(at(last)); }) ==
        "lse: [0x1003ffc, 0x10041fc)");
  CHECK(broken_args([&](P&, A& a) { a.lse = reinterpret_cast<float*>(at(last + 4)); }) == "");
  CHECK(broken_args([](P&, A& a) { a.lse = static_cast<float*>(a.out); }) == "lse: [0x4000000, 0x4000200)");
}

TEST_CASE("validate: inputs may be broadcast, reversed, and shared") {
  CHECK(broken_args([](P&, A& a) { a.k_strides = a.v_strides = {0, 0, 0}; }) == "");
  CHECK(broken_args([](P&, A& a) { a.q = a.k = a.v; }) == "");
  CHECK(broken_args([](P&, A& a) { a.k_strides.row = -a.k_strides.row; }) == "");
}

TEST_CASE("validate: strides that leave the address space, whatever their size") {
  CHECK(broken_args([](P&, A& a) { a.q_strides.batch = kMax64 - 7; }) ==
        "q_strides: batch 9223372036854775800, head 64, row 256");
  CHECK(broken_args([](P&, A& a) {
          a.k_strides = {kMin64, kMin64, kMin64};
        }) == "k_strides: batch -9223372036854775808, head -9223372036854775808, row -9223372036854775808");
  CHECK(broken_args([](P&, A& a) { a.out_strides.batch = kMin64; }) ==
        "out_strides: batch -9223372036854775808, head 64, row 256");
  CHECK(broken_args([](P&, A& a) { a.v_strides.row = -0x1000000; }) ==
        "v_strides: batch 4096, head 64, row -16777216");
  CHECK(broken_args([](P& p, A& a) { p.batch = 1, a.q_strides.batch = kMin64; }) == "");
  // The largest extents that a valid problem can have, with the largest strides.
  P p = valid_problem();
  p.batch = 1, p.heads_q = p.heads_kv = 16, p.seqlen_q = p.seqlen_k = (std::int64_t{1} << 31) - 1024;
  A a = arguments(p);
  a.k_strides = a.v_strides = {kMin64, kMin64, kMin64};
  a.out = at(std::uintptr_t{1} << 44), a.lse = nullptr;  // beyond the 4 TiB of Q
  CHECK(violations_of(p, a).size() == 2);
}

TEST_CASE("validate: rows of O must not overlap") {
  CHECK(broken_args([](P&, A& a) { a.out_strides.row = 0; }) == "out_strides.row: 0");
  CHECK(broken_args([](P&, A& a) { a.out_strides.head = 56; }) == "out_strides.head: 56");
  CHECK(broken_args([](P&, A& a) { a.out_strides.row = 248; }) == "out_strides.row: 248");
  CHECK(broken_args([](P&, A& a) { a.out_strides.batch = 4088; }) == "out_strides.batch: 4088");
  CHECK(broken_args([](P&, A& a) { a.out_strides.row = -256; }) == "");
  CHECK(broken_args([](P& p, A& a) { p.seqlen_q = 1, a.out_strides.row = 0; }) == "");
  CHECK(broken_args([](P&, A& a) {
          a.out_strides = {64, 128, 512};
        }) == "");  // (row, head, batch, dim) order
  const P p = valid_problem();
  A a = arguments(p);
  a.out_strides.row = 248;
  CHECK(violations_of(p, a).at(0).rule.find("at least 256") != std::string::npos);
}

TEST_CASE("validate: O against the inputs") {
  const std::uintptr_t size = 2 * 16 * 4 * 64 * 2;
  CHECK(broken_args([](P&, A& a) { a.out = const_cast<void*>(a.q); }) == "out: [0x1000000, 0x1004000)");
  CHECK(broken_args([&](P&, A& a) { a.out = at(0x1000000 + size - 16); }) == "out: [0x1003ff0, 0x1007ff0)");
  CHECK(broken_args([&](P&, A& a) { a.out = at(0x1000000 + size); }) == "");
  CHECK(broken_args([&](P&, A& a) { a.out = at(0x1000000 - size); }) == "");
  // With its rows reversed, O ends with its first row.
  const std::uintptr_t first_row = 0x1000000 + size + 15 * 512;
  const auto reversed = [&](std::uintptr_t address) {
    return broken_args([&](P& p, A& a) {
      p.batch = 1;
      a.out_strides.row = -256;
      a.out = at(address);
      a.q_strides.batch = 0;
    });
  };
  CHECK(reversed(first_row) == "");
  CHECK(reversed(0x1000000 + 8192 + 15 * 512) == "");
  CHECK(reversed(0x1000000 + 8192 + 15 * 512 - 16) == "out: [0x1001ff0, 0x1003ff0)");
}

TEST_CASE("validate: float32 O has rows and bytes of its own, and no gradients") {
  const auto of_floats = [](auto change) {
    return broken_args([&](P& p, A& a) {
      p.float32_out = true;
      change(a);
    });
  };
  const std::uintptr_t halves = 2 * 16 * 4 * 64 * 2;
  CHECK(of_floats([](A&) {}) == "");
  CHECK(of_floats([](A& a) { a.out_strides.row = 260, a.out_strides.batch *= 2; }) == "");
  CHECK(of_floats([](A& a) { a.out_strides.row = 258, a.out_strides.batch *= 2; }) == "out_strides.row: 258");
  CHECK(of_floats([](A& a) { a.out_strides.head = 60; }) == "out_strides.head: 60");
  CHECK(of_floats([](A& a) { a.out = at(0x4000008); }) == "out: 0x4000008");
  CHECK(of_floats([&](A& a) { a.out = at(0x1000000 - 2 * halves); }) == "");
  CHECK(of_floats([&](A& a) { a.out = at(0x1000000 - 2 * halves + 16); }) == "out: [0xff8010, 0x1000010)");
  P p = valid_problem();
  p.float32_out = true, p.row_alignment = RowAlignment::element;
  A a = arguments(p);
  a.out = at(0x4000004);
  CHECK(violations_of(p, a).empty());
  a.out = at(0x4000002);
  CHECK(fields(violations_of(p, a)) == "out: 0x4000002");
  CHECK(lines(violations_of_backward(p, {})) ==
        "float32_out = 1, must be false: gradients are computed from O of 16 bits\n");
}

TEST_CASE("validate: O as a slice of one packed buffer") {
  P p = valid_problem();
  p.heads_kv = 4;
  p.seqlen_k = 16;
  // (batch, seqlen, 4, heads, dim): slices 0..3 are Q, K, V, O.
  const std::int64_t row = 4 * 4 * 64;
  A a = arguments(p);
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {16 * row, 64, row};
  const auto slice = [](std::uintptr_t index) { return at(0x1000000 + index * 4 * 64 * 2); };
  a.q = slice(0), a.k = slice(1), a.v = slice(2), a.out = slice(3);
  CHECK(violations_of(p, a).empty());
  a.out = slice(0), a.q = slice(3);
  CHECK(violations_of(p, a).empty());
  a.k_strides.row = -row, a.k = at(0x1000000 + 512 + 15 * 2048);  // K backwards, in the same columns
  CHECK(violations_of(p, a).empty());
  a.out = at(0x1000000 + 16);  // eight columns into K
  CHECK(fields(violations_of(p, a)).rfind("out: [0x1000010", 0) == 0);
  a.out = slice(2);
  CHECK(violations_of(p, a).size() == 1);

  // (batch, heads, seqlen, 4, dim): the head stride is a multiple of the row stride.
  a = arguments(p);
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {4 * 16 * 256, 16 * 256, 256};
  a.q = at(0x1000000), a.k = at(0x1000080), a.v = at(0x1000100), a.out = at(0x1000180);
  CHECK(violations_of(p, a).empty());
  a.q_strides.head += 8;  // Q's columns move with the head, into O's
  CHECK_FALSE(violations_of(p, a).empty());
  a.q_strides.head = 16 * 256;
  a.q_strides.row = 512;  // every second row: still Q's columns
  CHECK(violations_of(p, a).empty());
  a.q_strides.row = 264;
  CHECK_FALSE(violations_of(p, a).empty());

  // (batch, 4, heads, seqlen, dim): each tensor's batches lie between those of the others.
  a = arguments(p);
  const std::int64_t elements = p.heads_q * p.seqlen_q * 64;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {4 * elements, p.seqlen_q * 64, 64};
  const auto tensor = [&](int i) {
    return at(0x1000000 + static_cast<std::uintptr_t>(2 * elements) * static_cast<unsigned>(i));
  };
  a.q = tensor(0), a.k = tensor(1), a.v = tensor(2), a.out = tensor(3);
  CHECK(violations_of(p, a).empty());
  a.out_strides.batch -= 8;
  CHECK_FALSE(violations_of(p, a).empty());
}

TEST_CASE("overlap: disjoint_columns agrees with an enumeration of the elements") {
  unsigned seed = 1;
  const auto random = [&](int from, int to) {
    seed = seed * 1664525 + 1013904223;
    return from + static_cast<int>((seed >> 8) % static_cast<unsigned>(to - from + 1));
  };
  int proven = 0, wrong = 0;
  for (int round = 0; round < 20000; ++round) {
    Operand views[2];
    std::bitset<2000> bytes[2];
    const int row = random(0, 24);
    for (int t = 0; t < 2; ++t) {
      Operand& view = views[t];
      view.strided = true;
      view.element = random(0, 2) == 0 ? ElementType::f32 : ElementType::bf16;
      const std::int64_t bytes_each = bytes_of(view.element);
      view.data = at(static_cast<std::uintptr_t>(800 + 2 * random(0, 20)));
      view.extents[3] = random(1, 6);
      for (std::size_t i = 0; i < 3; ++i) view.extents[i] = random(1, 3);
      view.strides = {random(-2, 2) * row, random(-6, 12), random(0, 3) == 0 ? -row : row};
      for (std::int64_t b = 0; b < view.extents[0]; ++b) {
        for (std::int64_t h = 0; h < view.extents[1]; ++h) {
          for (std::int64_t r = 0; r < view.extents[2]; ++r) {
            const std::int64_t start = b * view.strides[0] + h * view.strides[1] + r * view.strides[2];
            for (std::int64_t e = 0; e < bytes_each * view.extents[3]; ++e) {
              const std::int64_t at_byte = static_cast<std::int64_t>(view.address()) + bytes_each * start + e;
              bytes[t].set(static_cast<std::size_t>(at_byte));
            }
          }
        }
      }
    }
    const bool share = (bytes[0] & bytes[1]).any();
    const bool disjoint = disjoint_columns(views[0], views[1]);
    CHECK(disjoint == disjoint_columns(views[1], views[0]));
    proven += disjoint;
    wrong += disjoint && share;
  }
  CHECK(wrong == 0);
  CHECK(proven > 500);
}

TEST_CASE("validate: everything wrong with the arguments is listed at once") {
  const std::string text = broken_args([](P&, A& a) {
    a.q = nullptr;
    a.k = at(0x2000002);
    a.out_strides.row = 0;
    a.softmax_scale = std::nanf("");
  });
  CHECK(text == "softmax_scale: nan\nq: null\nk: 0x2000002\nout_strides.row: 0");
}

TEST_CASE("validate: tensors must be on the device") {
  const auto facts = [](const void* pointer) -> PointerFacts {
    switch (reinterpret_cast<std::uintptr_t>(pointer) >> 24) {
      case 1:
        return {PointerKind::device, 0};
      case 2:
        return {PointerKind::device, 1};
      case 3:
        return {PointerKind::managed, 1};
      case 4:
        return {PointerKind::pinned_host, -1};
      default:
        return {};
    }
  };
  const A a = arguments(valid_problem());  // q, k, v, o, lse lie in 1, 2, 3, 4, 5
  const std::vector<Violation> found = violations_of_residency(operands_of(valid_problem(), a), 0, facts);
  REQUIRE(found.size() == 2);
  CHECK(found[0].field == "k");
  CHECK(found[0].value == "0x2000000 on device 1");
  CHECK(found[0].rule == "must be on device 0, where this call runs");
  CHECK(found[1].field == "lse");
  CHECK(violations_of_residency(operands_of(valid_problem(), A{}), 0, facts).empty());
}
