// Ranges of integers (attention/rows/score_range.cuh): each operation holds the results of all numbers in its operands' ranges.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

struct Operation {
  std::string text;      ///< of a and b
  bool is_tight = true;  ///< whether the range has the results' least and greatest value
  std::string defined = "true";
};

/// Returns words, each for two ranges of numbers from -20 to 27, of which many touch or are alike.
std::vector<std::uint32_t> random_words() {
  std::mt19937 random(11);
  std::vector<std::uint32_t> words(4096);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

/// Returns how many pairs of ranges have a range of results without one of these, or of others if it is tight.
int wrong_ranges(const Operation& operation) {
  const std::string body =
      "using namespace score;\n"
      "for (int n = thread_index(); n < p.count; n += 128) {\n"
      "  const u32 x = p.in[n];\n"
      "  const int a0 = static_cast<int>(x % 41) - 20, a1 = a0 + static_cast<int>(x / 64 % 8);\n"
      "  const int b0 = static_cast<int>(x / 4096 % 41) - 20, b1 = b0 + static_cast<int>(x / 262144 % 8);\n"
      "  const auto of = [](auto a, auto b) { (void)a, (void)b; return " +
      operation.text +
      "; };\n"
      "  const Range range = of(Range(a0, a1), Range(b0, b1));\n"
      "  Range found(1 << 20, -(1 << 20));\n"
      "  bool is_defined = true;\n"
      "  for (int a = a0; a <= a1; ++a)\n"
      "    for (int b = b0; b <= b1; ++b) {\n"
      "      const bool defined = " +
      operation.defined +
      ";\n"
      "      is_defined &= defined;\n"
      "      const i64 result = defined ? of(a, b) : 0;\n"
      "      if (defined) found = {smaller(found.least, result), larger(found.most, result)};\n"
      "    }\n"
      "  const bool holds = found.least >= range.least && found.most <= range.most;\n"
      "  const bool is_tight = found.least == range.least && found.most == range.most;\n"
      "  p.out[n] = holds && (is_tight || !is_defined || " +
      (operation.is_tight ? "false" : "true") + ") ? 0 : 1;\n}";
  int wrong = 0;
  const std::vector<std::uint32_t> words = random_words();
  for (const std::uint32_t is_wrong :
       run_over<std::uint32_t>(words, words.size(), body, 128, 1024, {"attention/rows/score_range.cuh"}))
    wrong += static_cast<int>(is_wrong);
  return wrong;
}

}  // namespace

TEST_CASE("score ranges hold the results of all numbers in them") {
  if (cannot_run()) return;
  const std::vector<Operation> operations = {
      {"a + b"},
      {"a - b"},
      {"-a"},
      {"a * b"},
      {"a / b", true, "b != 0"},
      {"a % 7", false},
      {"a % b", false, "b != 0"},
      {"a << 3"},
      {"a >> 2"},
      {"a >> b", false, "b >= 0"},
      {"~a"},
      {"a & 7", false},
      {"a & b", false},
      {"a | b", false},
      {"a ^ b", false},
      {"a < b"},
      {"a <= b"},
      {"a > b"},
      {"a >= b"},
      {"a == b"},
      {"a != b"},
      {"!a"},
      {"a && b"},
      {"a || b"},
      {"score::min(a, b)"},
      {"score::max(a, b)"},
      {"score::abs(a)"},
      {"floor_div(a, b)", false, "b != 0"},
      {"floor_div(a, 5)"},
      {"remainder(a, 6)", false},
      {"remainder(a, b)", false, "b != 0"},
      {"select(a < b, a, 3)", false},
      {"score::abs((a & 3) - (b & 3)) <= 2 || a / 4 == b / 4", false},
  };
  for (const Operation& operation : operations) {
    INFO(operation.text);
    CHECK(wrong_ranges(operation) == 0);
  }
}

TEST_CASE("score ranges of sums and products that no int holds are unknown") {
  if (cannot_run()) return;
  const auto unknown = [](const std::string& expression) {
    return map<std::uint32_t>(std::vector<std::uint32_t>{40000},
                              "(" + expression + ").least == score::Range::unknown().least ? 1 : 0",
                              {"attention/rows/score_range.cuh"})[0];
  };
  CHECK(unknown("score::Range(x) * score::Range(x)") == 0);
  CHECK(unknown("score::Range(x) * score::Range(x + 40000)") == 1);
  CHECK(unknown("score::Range(0, 2147483647) + 1") == 1);
  CHECK(unknown("score::Range(1) << 31") == 1);
  CHECK(unknown("score::Range(-2147483647 - 1, 0) / -1") == 1);
}
