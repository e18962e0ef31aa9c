// The rules of variants: numbers that they need are required, and others rejected.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

using namespace fa2;
using namespace fa2::test;

namespace {

using P = PlannedProblem;
using A = AttentionArgs;

constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();

P problem() {
  return P({.head_dim = 64, .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 16, .seqlen_k = 32}, {})
      .normalized();
}

template <class Change>
std::string broken(Change change) {
  P p = problem();
  change(p);
  return fields(violations_of(p));
}

}  // namespace

TEST_CASE("validate: chunks") {
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{8192}, kMax64})
    CHECK(broken([&](P& p) { p.attention_chunk = length; }) == "");
  CHECK(broken([](P& p) { p.attention_chunk = 0; }) == "attention_chunk: 0");
  CHECK(broken([](P& p) { p.attention_chunk = kMin64; }) == "attention_chunk: -9223372036854775808");
}

TEST_CASE("validate: windows") {
  for (const std::int64_t width : {std::int64_t{0}, std::int64_t{1}, kMax64}) {
    CHECK(broken([&](P& p) { p.window_left = p.window_right = width; }) == "");
  }
  CHECK(broken([](P& p) { p.window_left = -1; }) == "window_left: -1");
  CHECK(broken([](P& p) { p.window_right = kMin64; }) == "window_right: -9223372036854775808");
  P p = problem();
  p.window_left = -1;
  CHECK(violations_of(p).at(0).rule == "must be at least 0, or absent for no bound");
  CHECK(broken([](P& q) { q.mask = MaskKind::causal_top_left, q.window_right = -1; }) ==
        "window_right: -1");  // even if it has no effect
}

TEST_CASE(
    "validate: numbers of variants are required if the problem has the variant, and rejected otherwise") {
  static const float numbers[8] = {};
  P p = problem();
  A a = arguments(p);
  const auto set = [](P& changed, const std::string& variant, bool is_on) {
    P::visit(
        [&](const char* field, FieldRole, auto& value) {
          if (field == variant) value = std::remove_reference_t<decltype(value)>(is_on);
        },
        changed);
  };
  visit_numbers(
      [&](const std::string variant, const char*, bool, auto& value, auto&...) {
        set(p, variant, true);
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>)
          value = numbers;
        else
          value = 30;
      },
      p, a);
  CHECK(violations_of(p, a).empty());

  // Each number, left out and given without its variant.
  visit_numbers(
      [&](const std::string variant, const std::string name, bool, auto& value, auto&...) {
        CAPTURE(name);
        const std::int16_t tensor = kAttentionTable.tensor_index(name);
        if (tensor >= 0 && kAttentionTable.tensors[static_cast<std::size_t>(tensor)].text.is_optional) return;
        const auto given = value;
        value = {};
        REQUIRE(violations_of(p, a).size() == 1);
        const Violation missing = violations_of(p, a).at(0);
        CHECK(missing.field == name);
        value = given;

        P without = p;
        set(without, variant, false);
        REQUIRE(violations_of(without, a).size() == 1);
        const Violation idle = violations_of(without, a).at(0);
        CHECK(idle.field == name);
        CHECK(idle.rule.find("or the problem's " + variant + " true") != std::string::npos);
      },
      p, a);
}

TEST_CASE("validate: a softcap must be finite and above 0") {
  P p = problem();
  p.softcap = true;
  A a = arguments(p);
  for (const float cap : {0.0f, -0.0f, -1.0f, std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    a.softcap = cap;
    CAPTURE(cap);
    REQUIRE(violations_of(p, a).size() == 1);
    CHECK(violations_of(p, a).at(0).field == "softcap");
    CHECK(violations_of(p, a).at(0).rule == "must be finite and above 0: the problem has a softcap");
  }
  a.softcap = 1e-30f;
  CHECK(violations_of(p, a).empty());
  p.softcap = false;
  for (const float cap : {5.0f, std::nanf("")}) {
    a.softcap = cap;
    REQUIRE(violations_of(p, a).size() == 1);
    CHECK(violations_of(p, a).at(0).rule == "must be 0, or the problem's softcap true");
  }
}

TEST_CASE("validate: slopes and sinks are float32, for all heads, and must not overlap outputs") {
  P p = problem();
  p.alibi = p.sinks = true;
  A a = arguments(p);
  const auto floats = [](std::uintptr_t address) { return reinterpret_cast<const float*>(at(address)); };
  a.alibi_slopes = floats(0x6000000);
  a.sinks = floats(0x7000000);
  CHECK(fields(violations_of(p, a)) == "");
  a.sinks = floats(0x7000002);
  CHECK(fields(violations_of(p, a)) == "sinks: 0x7000002");
  a.sinks = floats(0x5000000);  // in LSE
  CHECK(fields(violations_of(p, a)).starts_with("lse: "));
  a.sinks = floats(0x5000000 - 4 * 4);  // right before LSE
  CHECK(fields(violations_of(p, a)) == "");
  a.alibi_slopes = floats(0x5000000 - 4 * 4);
  CHECK(fields(violations_of(p, a)) == "");
  a.alibi_slopes_per_batch = true;  // twice as many, reaching into LSE
  CHECK(fields(violations_of(p, a)).starts_with("lse: "));
}
