// Quotients by multiplication, what chunks make of them, and how heads are grouped for them.
#include <doctest/doctest.h>
#include <planning/attention_params.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <templates/attention/common/divisor.cuh>
#include <templates/attention/common/key_chunks.cuh>
#include <utility>
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

TEST_CASE("key chunks: where the chunk of any position begins and ends") {
  constexpr int kLast = static_cast<int>(kMost);
  for (const int length : {1, 3, 64, 8192, 1 << 30, kLast - 1, kLast}) {
    const KeyChunks chunks{divisor_of(static_cast<unsigned>(length))};
    for (const int position : {0, 1, 2, 3, 63, 64, 8191, 8192, 100000, 1 << 30, kLast - 1, kLast}) {
      for (const int last : {0, 1, 64, 8192, 100001, kLast}) {
        CAPTURE(length);
        CAPTURE(position);
        CAPTURE(last);
        const std::int64_t begin = position / length * std::int64_t{length};
        CHECK(chunks.begin_of(position) == begin);
        CHECK(chunks.end_of(position, last) == std::min<std::int64_t>(begin + length, last));
      }
    }
    for (const int position : {-1, -length, -kLast - 1}) {
      CHECK(chunks.begin_of(position) == 0);
      CHECK(chunks.end_of(position, 100) == 0);
    }
  }
}

TEST_CASE("key chunks: a kernel's are as long as the problem's, at most as the longest sequence") {
  AttentionProblem p{.head_dim = 64, .seqlen_q = 500, .seqlen_k = 300};
  const KernelConfig config = default_config(KernelId::forward_sm80);
  CHECK(constants_of(p.normalized(), config).chunks.length.value == 0);  // none
  for (const auto& [length, expected] : {std::pair{std::int64_t{1}, 1u},
                                         {499, 499u},
                                         {500, 500u},
                                         {501, 500u},
                                         {std::int64_t{1} << 62, 500u}}) {
    p.attention_chunk = length;
    CHECK(constants_of(p.normalized(), config).chunks.length.value == expected);
  }
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
