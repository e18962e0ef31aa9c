// The interpreter's checks of the barrier of a cluster, whose blocks run together.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// A kernel for two clusters of two blocks with two warps each. `body` may use `rank`, the block's rank.
BrokenKernel in_clusters(const char* name, const std::string& body, std::vector<std::string> words) {
  return {name,
          "const int rank = static_cast<int>(block_rank_in_cluster()); " + body,
          std::move(words),
          64,
          1024,
          4,
          2};
}

}  // namespace

TEST_CASE("barrier.cluster") {
  expect_caught({
      in_clusters("a wait without an arrival",
                  "if (mended) barrier_cluster_arrive();\nbarrier_cluster_wait();",
                  {"barrier.cluster.wait with no barrier.cluster.arrive before it", "at body:2"}),
      in_clusters("an arrival without a wait",
                  "barrier_cluster_arrive();\nif (mended) barrier_cluster_wait();",
                  {"the thread ended with no barrier.cluster.wait for its arrival", "at body:1"}),
      in_clusters(
          "two arrivals in a row",
          "barrier_cluster_arrive();\nif (mended) barrier_cluster_wait();\nbarrier_cluster_arrive();\n"
          "barrier_cluster_wait();",
          {"barrier.cluster.arrive, twice with no barrier.cluster.wait between", "at body:3"}),
      in_clusters("a block that ends without the barrier",
                  "if (rank == 1 || mended) {\nbarrier_cluster_arrive();\nbarrier_cluster_wait();\n}",
                  {" ended", "barrier.cluster.arrive", "at body:2"}),
      in_clusters(
          "a warp that ends without the barrier",
          "if (rank == 1 || t < 32 || mended) {\nbarrier_cluster_arrive();\nbarrier_cluster_wait();\n}",
          {" ended", "barrier.cluster.arrive", "at body:2"}),
      in_clusters(
          "a lane that takes another way",
          "if (t != 3 || mended) bar_warp_sync();\nbarrier_cluster_arrive();\nbarrier_cluster_wait();",
          {"divergent warp"}),
      in_clusters(
          "a warp that never comes to the barrier",
          "if (rank == 1 && t >= 32 && !mended) bar_sync(1, "
          "64);\nbarrier_cluster_arrive();\nbarrier_cluster_wait();",
          {"deadlock: every thread waits\nkernel small kernel, blocks 0 to 1:\n",
           "64 of 64 threads of block 0 (thread 0 the first): waits at body:3 in barrier.cluster.wait (96 of "
           "128 threads of the cluster have arrived)",
           "32 of 64 threads of block 1 (thread 32 the first): waits in bar.sync 1 at body:1 (32 of 64 "
           "threads have arrived)"}),
  });
}
