// ldmatrix: the element that each lane receives.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::uint32_t kRows = 64;  ///< rows of 16 bytes in shared memory; element i holds i

/// Returns four words per lane. Lane l gives the address of row rows[l].
std::vector<std::uint32_t> load(const std::vector<std::uint32_t>& rows, const std::string& instruction) {
  return run_over<std::uint32_t>(rows, 32 * 4,
                                 "const int lane = lane_index();\n"
                                 "for (u32 i = lane; i < 64 * 4; i += 32)\n"
                                 "  st_shared_u32(dynamic_shared() + 4 * i, 2 * i | (2 * i + 1) << 16);\n"
                                 "bar_warp_sync();\n"
                                 "u32 m[4];\n" +
                                     instruction +
                                     "(m, dynamic_shared() + 16 * p.in[lane]);\n"
                                     "for (int i = 0; i < 4; ++i) p.out[4 * lane + i] = m[i];");
}

/// Returns rows in order, reversed, permuted, and one row for all lanes.
std::vector<std::vector<std::uint32_t>> row_lists() {
  std::vector<std::uint32_t> all(kRows);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::vector<std::uint32_t>> lists;
  lists.emplace_back(all.begin(), all.begin() + 32);
  lists.emplace_back(all.rbegin(), all.rbegin() + 32);
  std::shuffle(all.begin(), all.end(), std::mt19937(2));
  lists.emplace_back(all.begin(), all.begin() + 32);
  lists.emplace_back(32, 7u);
  return lists;
}

}  // namespace

TEST_CASE("ldmatrix gives lane l elements 2 (l % 4) and the next of row l / 4") {
  if (cannot_run()) return;
  for (const auto& rows : row_lists()) {
    const auto words = load(rows, "ldmatrix_x4");
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t element = 8 * rows[8 * i + lane / 4] + 2 * (lane % 4);
        CHECK(words[4 * lane + i] == (element | (element + 1) << 16));
      }
    }
  }
}

TEST_CASE("ldmatrix.trans gives lane l element l / 4 of rows 2 (l % 4) and the next") {
  if (cannot_run()) return;
  for (const auto& rows : row_lists()) {
    const auto words = load(rows, "ldmatrix_x4_trans");
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t row = 8 * i + 2 * (lane % 4);
        const std::uint32_t low = 8 * rows[row] + lane / 4, high = 8 * rows[row + 1] + lane / 4;
        CHECK(words[4 * lane + i] == (low | high << 16));
      }
    }
  }
}
