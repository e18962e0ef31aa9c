// The order in which a block's warps run.
#include <doctest/doctest.h>
#include <interpreter/interpreted_kernel.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kWarps = 8;
constexpr int kBlocks = 3;
using Order = std::vector<int>;

struct Params {
  int* order;  ///< a block's kWarps warps in the order in which they ran, then how many have run
};

std::vector<Order> orders(std::uint32_t seed) {
  static const KernelBinary binary =
      compile_for_interpreter({"int* const order = p.order + 9 * block_index();\n"
                               "if (lane_index() == 0) order[order[8]++] = thread_index() / 32;",
                               "int* order;", 32 * kWarps});
  std::vector<int> memory(kBlocks * (kWarps + 1));
  const auto kernel = interpreter::load_interpreted_kernel(binary, {false, true, seed});
  launch(*kernel, Params{memory.data()}, {}, kBlocks);
  std::vector<Order> list;
  for (auto block = memory.begin(); block != memory.end(); block += kWarps + 1)
    list.emplace_back(block, block + kWarps);
  return list;
}

}  // namespace

TEST_CASE("warps run in ascending order, or in an order that the seed determines for each block") {
  Order ascending(kWarps);
  std::iota(ascending.begin(), ascending.end(), 0);
  CHECK(orders(0) == std::vector<Order>(kBlocks, ascending));

  const auto drawn = orders(1);
  CHECK(orders(1) == drawn);
  CHECK(orders(2) != drawn);
  for (const Order& order : drawn) {
    CHECK(order != ascending);
    CHECK(std::is_permutation(order.begin(), order.end(), ascending.begin()));
  }
  CHECK(drawn[0] != drawn[1]);
}
