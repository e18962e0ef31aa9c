// Quotients by multiplication, and how heads are grouped for them.
#include <doctest/doctest.h>
#include <planning/attention_params.h>

#include <cstdint>
#include <random>
#include <templates/attention/common/divisor.cuh>
#include <vector>

using namespace fa2;

namespace {

constexpr unsigned kMost = (1u << 31) - 1;

}  // namespace

TEST_CASE("divisor: quotients of every number below 2^31 are exact") {
  std::vector<unsigned> divisors = {1, 2, 3, 5, 7, 641, 65535, 65536, 65537, kMost - 1, kMost, 1u << 31};
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i)
    divisors.push_back(static_cast<unsigned>(random() & kMost) >> random() % 31 | 1);
  for (const unsigned value : divisors) {
    const Divisor by = divisor_of(value);
    CAPTURE(value);
    const auto check = [&](std::uint64_t n) {
      if (n <= kMost && quotient(static_cast<unsigned>(n), by) != n / value)
        FAIL_CHECK(n, " / ", value, " = ", quotient(static_cast<unsigned>(n), by));
    };
    // Around multiples of the divisor, where an inexact multiplier would err.
    const std::uint64_t last = kMost / value;
    for (const std::uint64_t multiple :
         {std::uint64_t{0}, std::uint64_t{1}, last / 2, last - (last > 0), last})
      for (int around = -1; around <= 1; ++around)
        check(multiple * value + static_cast<std::uint64_t>(around));
    for (int i = 0; i < 100; ++i) check(random() & kMost);
    check(kMost);
  }
}

TEST_CASE("divisor: 0 is prepared for problems without tiles") {
  CHECK(divisor_of(0).value == 0);
  CHECK(quotient(5, divisor_of(0)) == 0);
}

TEST_CASE("head sections: of all heads, or of a packed sequence's; the last one may have fewer") {
  AttentionProblem p{.batch = 5};
  HeadSections sections = head_sections(p, 7, 16, 3);
  CHECK(sections.heads[0].value == 16);
  CHECK(sections.heads[1].value == 3);  // of 35
  CHECK(sections.tiles.value == 48);
  CHECK(sections.heads_of_one.value == 7);
  p.varlen = true;
  sections = head_sections(p, 7, 16, 3);
  CHECK(sections.heads[0].value == 7);
  CHECK(sections.heads[1].value == 7);
  p.batch = 0, p.varlen = false;
  CHECK(head_sections(p, 7, 16, 3).heads[0].value == 0);
}
