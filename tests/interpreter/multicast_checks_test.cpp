// The interpreter's checks of TMA loads for several blocks of a cluster.
#include <doctest/doctest.h>

#include "hopper_case.h"

using namespace fa2::test;

namespace {

const std::string kSync = "barrier_cluster_arrive(); barrier_cluster_wait();\n";
const std::string kExpect = "if (thread_index() == 0) mbarrier_arrive_expect_tx(bar, 1024);\n";
const std::string kWait = "mbarrier_wait(bar, 0);\n";
const std::string kRead = "ld_shared_u32(dynamic_shared() + 4 * lane_index());\n";

/// Block 0 loads a box for the blocks in `mask`.
std::string load_for(const std::string& mask) {
  return "if (block_rank_in_cluster() == 0 && thread_index() == 0) tma_load_multicast(dynamic_shared(), "
         "p.map, {{0, 0, 0, "
         "0, 0}}, bar, " +
         mask + ");\n";
}

/// One cluster of two blocks.
HopperCase in_cluster(const std::string& rule, const std::string& broken, const std::string& mended,
                      const std::vector<std::string>& messages) {
  return {rule, kInit + broken, kInit + mended, messages, 64, 2, 2};
}

}  // namespace

TEST_CASE("multicast") {
  const std::string right = kExpect + kSync + load_for("3") + kWait + kRead + kSync;
  check_cases({
      in_cluster("a block that may not have begun", kExpect + load_for("3") + kWait + kSync, right,
                 {"access to shared address 1024 of block 1, which may not have begun"}),
      in_cluster("a block outside of the cluster", kExpect + kSync + load_for("7") + kWait + kSync, right,
                 {"multicast to blocks 0x7, must be some of the cluster's 2"}),
      in_cluster("no block", kExpect + kSync + load_for("0") + kWait + kSync, right,
                 {"multicast to blocks 0x0, must be some of the cluster's 2"}),
      in_cluster(
          "a block that reads before its own wait",
          kExpect + kSync + load_for("3") + "if (block_rank_in_cluster() == 1) " + kRead + kWait + kSync,
          right, {"TMA for the mbarrier at 9216 of block 1", "which nothing has written"}),
      in_cluster("a block that does not wait",
                 kExpect + kSync + load_for("3") + "if (block_rank_in_cluster() == 0) " + kWait + kSync,
                 right,
                 {"the block ended while a bulk load may be in flight: no thread has waited for it\nkernel "
                  "small kernel, "
                  "block 1, at body:4"}),
      in_cluster("a block that expects nothing",
                 "if (block_rank_in_cluster() == 0) " + kExpect + kSync + load_for("3") + kWait + kSync,
                 right, {"for the mbarrier at 9216 of block 1 (phase 0: 1 of 1 arrivals and"}),
      in_cluster("a block that still reads what lay there",
                 kExpect + kSync + load_for("3") + kWait + kRead + kExpect + load_for("3") +
                     "mbarrier_wait(bar, 1);\n" + kSync,
                 kExpect + kSync + load_for("3") + kWait + kRead + kSync + kExpect + load_for("3") +
                     "mbarrier_wait(bar, 1);\n" + kSync,
                 {"race: ", "is in flight", "which nothing has written"}),
  });
}
