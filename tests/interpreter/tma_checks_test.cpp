// The interpreter's checks of bulk copies.
#include <doctest/doctest.h>

#include "hopper_case.h"

using namespace fa2::test;

namespace {

const std::string kExpect = "if (thread_index() == 0) mbarrier_arrive_expect_tx(bar, 1024);\n";
const std::string kLoad =
    "if (thread_index() == 0) tma_load(dynamic_shared(), p.map, {{0, 0, 0, 0, 0}}, bar);\nbar_sync();\n";
const std::string kWait = "mbarrier_wait(bar, 0);\n";
const std::string kRead = "ld_shared_u32(dynamic_shared() + 4 * lane_index());\n";
const std::string kWrite =
    "for (int i = 0; i < 4; ++i) st_shared_u32(dynamic_shared() + 4 * thread_index() + 256 * i, 0);\n";
const std::string kFence = "fence_proxy_async_shared();\n";
const std::string kSync = "bar_sync();\n";
const std::string kStore =
    "if (thread_index() == 0) {\n tma_store(p.out_map, {{0, 0, 0, 0, 0}}, dynamic_shared());\n "
    "bulk_commit_group();\n}\n";
const std::string kStored = "if (thread_index() == 0) bulk_wait_group_read<0>();\n";

/// Returns code in which thread 0 adds four float32.
std::string add_to(const std::string& destination) {
  return "if (thread_index() == 0) {\n bulk_reduce_add_f32(" + destination +
         ", dynamic_shared(), 16);\n bulk_commit_group();\n bulk_wait_group<0>();\n}";
}

/// The message about a load that was not waited for: it has landed, or it is in flight.
const std::vector<std::string> kNotWaited = {
    "by TMA for the mbarrier at 9216 with no barrier between them",
    "to which an asynchronous copy of TMA for the mbarrier at 9216 is in flight"};

}  // namespace

TEST_CASE("bulk loads: before they have landed") {
  check_cases({
      {"a box that is read before its mbarrier was waited for", kInit + kExpect + kLoad + kRead + kWait,
       kInit + kExpect + kLoad + kWait + kRead, kNotWaited},
      {"a box that is read by who has not waited",
       kInit + kExpect + kLoad + "if (warp_index() == 0) " + kWait + "else " + kRead,
       kInit + kExpect + kLoad + "if (warp_index() == 0) " + kWait + kSync + kRead, kNotWaited},
      {"a box that is overwritten before it has landed", kInit + kExpect + kLoad + kWrite + kWait,
       kInit + kExpect + kLoad + kWait + kSync + kWrite, kNotWaited},
      {"a box of which no byte was expected",
       kInit + "if (thread_index() == 0) mbarrier_arrive(bar);\n" + kLoad + kWait + kRead,
       kInit + kExpect + kLoad + kWait + kRead, kNotWaited},
      {"a box of which more bytes are expected than it has",
       kInit + "if (thread_index() == 0) mbarrier_arrive_expect_tx(bar, 1040);\n" + kLoad + kWait,
       kInit + kExpect + kLoad + kWait,
       {"for the mbarrier at 9216 (phase 0: 0 of 1 arrivals and 16 bytes are missing)"}},
      {"a load that nobody waits for",
       kInit + kExpect + kLoad,
       kInit + kExpect + kLoad + kWait,
       {"the block ended while a bulk load may be in flight: no thread has waited for it\nkernel small "
        "kernel, block 0, "
        "at body:3"}},
      {"a second box before the first was read by everyone",
       kInit + kExpect + kLoad + kWait + kRead + kExpect + kLoad + "mbarrier_wait(bar, 1);\n" + kRead,
       kInit + kExpect + kLoad + kWait + kRead + kSync + kExpect + kLoad + "mbarrier_wait(bar, 1);\n" + kRead,
       {"race: asynchronous copy of shared address", "race: load of shared address",
        "to which an asynchronous copy of TMA for the mbarrier at 9216 is in flight"}},
  });
}

TEST_CASE("bulk loads: permitted addresses") {
  check_cases({
      {"an mbarrier that copies have not been shown",
       "if (thread_index() == 0) {\n mbarrier_init(dynamic_shared() + 8192, 1);\n "
       "mbarrier_arrive_expect_tx(dynamic_shared() + "
       "8192, 1024);\n tma_load(dynamic_shared(), p.map, {{0, 0, 0, 0, 0}}, dynamic_shared() + 8192);\n}",
       kInit + kExpect + kLoad + kWait,
       {"asynchronous copy on the mbarrier at 9216, with no fence.mbarrier_init by thread 0 that initialised "
        "it"}},
      {"a store that starts below 0",
       kInit + kWrite + kFence + kSync +
           "if (thread_index() == 0) {\n tma_store(p.out_map, {{0, -1, 0, 0, 0}}, dynamic_shared());\n "
           "bulk_commit_group();\n}\n" +
           kStored,
       kInit + kWrite + kFence + kSync + kStore + kStored,
       {"TMA store to coordinate -1 in dimension 1"}},
      {"a box that starts amid 16 bytes of a row",
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared(), p.map, {{-3, 0, 0, 0, 0}}, bar);\n" + kWait,
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared(), p.map, {{-8, 0, 0, 0, 0}}, bar);\n" + kWait,
       {"TMA copy of a box that starts at element -3 of its rows, must be a multiple of 16 bytes"}},
      {"a box that has no element, of a map that begins before the tensor",
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared(), p.early_map, {{0, 128, 0, 0, 0}}, bar);\n" +
           kWait,
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared(), p.early_map, {{0, 127, 0, 0, 0}}, bar);\n" +
           kWait,
       {"TMA load of a box that has no element: it touches the beginning of its tensor map"}},
      {"a destination off its swizzle's pattern",
       kInit + "if (thread_index() == 0) tma_load(dynamic_shared() + 128, p.map, {{0, 0, 0, 0, 0}}, bar);",
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared() + 2048, p.map, {{0, 0, 0, 0, 0}}, bar);\n" +
           kWait,
       {"asynchronous copy of 1024 bytes at shared address 1152: misaligned"}},
      {"a destination past the block's memory",
       kInit + "if (thread_index() == 0) tma_load(dynamic_shared() + 16384, p.map, {{0, 0, 0, 0, 0}}, bar);",
       kInit + kExpect +
           "if (thread_index() == 0) tma_load(dynamic_shared() + 15360, p.map, {{0, 0, 0, 0, 0}}, bar);\n" +
           kWait,
       {"asynchronous copy of 1024 bytes at shared address 17408, outside the block's 16384 bytes at 1024"}},
      {"plain stores that no fence has shown to the copy",
       kInit + kWrite + kSync + kExpect + kLoad + kWait,
       kInit + kWrite + kFence + kSync + kExpect + kLoad + kWait,
       {"wrote with no fence.proxy.async after it"}},
      {"bytes beyond a buffer",
       kInit + "if (thread_index() == 0) bulk_load(dynamic_shared(), p.in + 8192 - 16, 32, bar);",
       kInit +
           "if (thread_index() == 0) {\n mbarrier_arrive_expect_tx(bar, 32);\n bulk_load(dynamic_shared(), "
           "p.in + 8192 - 32, "
           "32, bar);\n}\n" +
           kWait,
       {"load of 32 bytes at global address", "outside the buffers of this launch"}},
      {"bytes that are no multiple of 16",
       kInit + "if (thread_index() == 0) bulk_load(dynamic_shared(), p.in, 24, bar);",
       kInit +
           "if (thread_index() == 0) {\n mbarrier_arrive_expect_tx(bar, 32);\n bulk_load(dynamic_shared(), "
           "p.in, 32, "
           "bar);\n}\n" +
           kWait,
       {"bulk copy of 24 bytes, must be a positive multiple of 16"}},
      {"what is no tensor map",
       kInit + "if (thread_index() == 0) tma_load(dynamic_shared(), *(const TensorMap*)p.in, {{0, 0, 0, 0, "
               "0}}, bar);",
       kInit + kExpect + kLoad + kWait,
       {"through a tensor map that encode_tensor_map has not made"}},
      {"an output that nothing has written",
       kInit + "if (thread_index() == 0) tma_load(dynamic_shared(), p.out_map, {{0, 0, 0, 0, 0}}, bar);",
       kInit + kExpect + kLoad + kWait,
       {"in output, which nothing has written"}},
  });
}

TEST_CASE("bulk stores") {
  check_cases({
      {"what no fence has shown to the copy",
       kWrite + kSync + kStore + kStored,
       kWrite + kFence + kSync + kStore + kStored,
       {"asynchronous load of shared address 1024 by TMA for the bulk groups of thread 0, which thread 0 "
        "wrote with no "
        "fence.proxy.async before the barrier"}},
      {"a fence by the wrong thread",
       kWrite + kSync + "if (thread_index() == 1) " + kFence + kStore + kStored,
       kWrite + kSync + "if (thread_index() == 0) " + kFence + kStore + kStored,
       {"wrote with no fence.proxy.async before the barrier"}},
      {"a fence before the store",
       kFence + kWrite + kSync + kStore + kStored,
       kWrite + kFence + kSync + kStore + kStored,
       {"wrote with no fence.proxy.async before the barrier"}},
      {"what other threads have yet to store",
       kWrite + kFence + kStore + kStored,
       kWrite + kFence + kSync + kStore + kStored,
       {"race: load of shared address", "which nothing has written", "race: store of shared address"}},
      {"an overwrite while the copy reads",
       kWrite + kFence + kSync + kStore + "if (thread_index() == 0) " + kWrite + kStored,
       kWrite + kFence + kSync + kStore + kStored + "if (thread_index() == 0) " + kWrite,
       {"race: store of shared address 1024 by thread 0, and load by TMA for the bulk groups of thread 0"}},
      {"an overwrite by who does not know that the copy has read",
       kWrite + kFence + kSync + kStore + kStored + kWrite,
       kWrite + kFence + kSync + kStore + kStored + kSync + kWrite,
       {"load by TMA for the bulk groups of thread 0", "load of shared address"}},
      {"an overwrite after a wait for an older group",
       kWrite + kFence + kSync + kStore + kStore +
           "if (thread_index() == 0) {\n bulk_wait_group_read<1>();\n " + kWrite + "}\n" + kStored,
       kWrite + kFence + kSync + kStore + kStore +
           "if (thread_index() == 0) {\n bulk_wait_group_read<0>();\n " + kWrite + "}",
       {"and load by TMA for the bulk groups of thread 0"}},
      {"an end before shared memory was read",
       kWrite + kFence + kSync + kStore,
       kWrite + kFence + kSync + kStore + kStored,
       {"the block ended while a bulk store of thread 0 may still read shared memory\nkernel small kernel, "
        "block 0, at "
        "body:5"}},
      {"a group that is not committed",
       kWrite + kFence + kSync +
           "if (thread_index() == 0) tma_store(p.out_map, {{0, 0, 0, 0, 0}}, dynamic_shared());\n" + kStored,
       kWrite + kFence + kSync + kStore + kStored,
       {"the block ended with a bulk store of thread 0 that no bulk_commit_group follows"}},
      {"a store to an input",
       kWrite + kFence + kSync +
           "if (thread_index() == 0) tma_store(p.map, {{0, 0, 0, 0, 0}}, dynamic_shared());",
       kWrite + kFence + kSync + kStore + kStored,
       {"in input, which this launch may only read"}},
      {"an addition past a buffer",
       kWrite + kFence + kSync + add_to("p.sums + 2048"),
       kWrite + kFence + kSync + add_to("p.sums + 2044"),
       {"atomic of 16 bytes at global address"}},
      {"an addition to what nothing has initialised",
       kWrite + kFence + kSync + add_to("p.out"),
       kWrite + "if (thread_index() < 4) st_global_f32(p.out + thread_index(), 0.0f);\n" + kFence + kSync +
           add_to("p.out"),
       {"in output, which nothing has initialised"}},
      {"a misaligned source",
       kWrite + kFence + kSync +
           "if (thread_index() == 0) tma_store(p.out_map, {{0, 0, 0, 0, 0}}, dynamic_shared() + 16);",
       kWrite + kFence + kSync + kStore + kStored,
       {"bulk copy from shared address 1040: misaligned, it must be a multiple of 1024"}},
  });
}

TEST_CASE("atomics") {
  check_cases({
      {"an atomic past its buffer",
       "atom_add_global_u32(p.counter + 1, 1);",
       "atom_add_global_u32(p.counter, 1);",
       {"atomic of 4 bytes at global address"}},
      {"a misaligned atomic",
       "red_add_global_f32((float*)((char*)p.sums + 2), 1.0f);",
       "red_add_global_f32(p.sums, 1.0f);",
       {": misaligned"}},
      {"an atomic on an input",
       "red_add_global_f32(p.input, 1.0f);",
       "red_add_global_f32(p.sums, 1.0f);",
       {"in input, which this launch may only read"}},
      {"a sum that starts from nothing",
       "red_add_global_f32(p.out + lane_index(), 1.0f);",
       "if (warp_index() == 0) st_global_f32(p.out + lane_index(), 0.0f);\nbar_sync();\n"
       "red_add_global_f32(p.out + lane_index(), 1.0f);",
       {"in output, which nothing has initialised"}},
      {"a sum of which a part starts from nothing",
       "st_global_u16(p.out + lane_index(), 0);\nred_add_global_f32(p.out + lane_index(), 1.0f);",
       "st_global_f32(p.out + lane_index(), 0.0f);\nred_add_global_f32(p.out + lane_index(), 1.0f);",
       {"in output, which nothing has initialised"}},
      {"tickets from a counter that starts from nothing",
       "atom_add_global_u32((u32*)p.out, 1);",
       "atom_add_global_u32(p.counter, 1);",
       {"in output, which nothing has initialised"}},
      {"tickets in turn from a counter that starts from nothing",
       "atom_inc_global_u32((u32*)p.out, 7);",
       "atom_inc_global_u32(p.counter, 7);",
       {"in output, which nothing has initialised"}},
  });
}

TEST_CASE("register budgets") {
  check_cases({
      {"more registers than the block has",
       "if (warpgroup_index() == 0) setmaxnreg_dec<24>(); else setmaxnreg_inc<248>();",
       "if (warpgroup_index() == 0) setmaxnreg_dec<24>(); else setmaxnreg_inc<240>();",
       {"in setmaxnreg.inc to 248 (the warp has 168, of 168 at launch; the block has"},
       384},
      {"registers that nobody gives back",
       "if (warpgroup_index() == 1) setmaxnreg_inc<176>();",
       "if (warpgroup_index() == 0) setmaxnreg_dec<160>();\nif (warpgroup_index() == 1) "
       "setmaxnreg_inc<176>();",
       {"in setmaxnreg.inc to 176 (the warp has 168, of 168 at launch; the block has 0 free per warp)"},
       384},
      {"a decrease to more",
       "setmaxnreg_dec<176>();",
       "setmaxnreg_dec<168>();",
       {"setmaxnreg.dec to 176 registers per thread, must be at most 168, which the warp has"},
       384},
      {"an increase to fewer",
       "setmaxnreg_inc<160>();",
       "setmaxnreg_inc<168>();",
       {"setmaxnreg.inc to 160 registers per thread, must be at least 168, which the warp has"},
       384},
      {"warps of a warpgroup that disagree",
       "if (warp_index() % 4 != 3) setmaxnreg_dec<24>();",
       "setmaxnreg_dec<24>();",
       {"the block ended with a setmaxnreg that not all warps of warpgroup 0 have executed"},
       384},
      {"half a warpgroup",
       "setmaxnreg_dec<24>();",
       "bar_sync();",
       {"setmaxnreg in a warpgroup of 64 threads, must be 128"}},
  });
}
