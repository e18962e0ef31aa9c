// The order in which the warps of a block, or of a cluster, run.
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
constexpr int kClusters = 3;
using Order = std::vector<int>;

struct Params {
  int* order;  ///< a cluster's warps in the order in which they ran, then how many have run
};

/// Returns the order of the warps of each cluster, which are counted through its blocks.
std::vector<Order> orders(std::uint32_t seed, int cluster = 1) {
  static const KernelBinary binary = compile_for_interpreter(
      {"const u32 rank = block_rank_in_cluster(), warps = 8 * blocks_in_cluster();\n"
       "int* const order = p.order + (warps + 1) * (block_index() / blocks_in_cluster());\n"
       "if (lane_index() == 0) order[order[warps]++] = 8 * rank + thread_index() / 32;",
       "int* order;", 32 * kWarps});
  const int warps = kWarps * cluster;
  std::vector<int> memory(static_cast<std::size_t>(kClusters * (warps + 1)));
  const auto kernel = interpreter::load_interpreted_kernel(binary, {false, true, seed});
  launch(*kernel, Params{memory.data()}, {}, kClusters * cluster, cluster);
  std::vector<Order> list;
  for (auto first = memory.begin(); first != memory.end(); first += warps + 1)
    list.emplace_back(first, first + warps);
  return list;
}

}  // namespace

TEST_CASE("warps run in ascending order, or in an order that the seed determines for each block") {
  Order ascending(kWarps);
  std::iota(ascending.begin(), ascending.end(), 0);
  CHECK(orders(0) == std::vector<Order>(kClusters, ascending));

  const auto drawn = orders(1);
  CHECK(orders(1) == drawn);
  CHECK(orders(2) != drawn);
  for (const Order& order : drawn) {
    CHECK(order != ascending);
    CHECK(std::is_permutation(order.begin(), order.end(), ascending.begin()));
  }
  CHECK(drawn[0] != drawn[1]);
}

TEST_CASE("the seed mixes the warps of all blocks of a cluster") {
  Order ascending(2 * kWarps);
  std::iota(ascending.begin(), ascending.end(), 0);
  CHECK(orders(0, 2) == std::vector<Order>(kClusters, ascending));

  const auto drawn = orders(1, 2);
  CHECK(orders(1, 2) == drawn);
  CHECK(drawn[0] != drawn[1]);
  for (const Order& order : drawn) {
    CHECK(std::is_permutation(order.begin(), order.end(), ascending.begin()));
    const auto is_of_first_block = [](int warp) { return warp < kWarps; };
    CHECK(!std::is_partitioned(order.begin(), order.end(), is_of_first_block));
    CHECK(!std::is_partitioned(order.rbegin(), order.rend(), is_of_first_block));
  }
}
