// The interpreter's checks of wgmma.
#include <doctest/doctest.h>
#include <interpreter/options.h>
#include <runtime/device.h>

#include <cmath>

#include "../support/small_kernel.h"
#include "hopper_case.h"

using namespace fa2;
using namespace fa2::test;

namespace {

const std::string kTypes =
    "const auto tile = matrix_descriptor<Swizzle::span128>(dynamic_shared(), 16, 1024); float d[16] = {}; "
    "u32 a[4] = {};\n";
/// Writes 64 rows of 128 bytes, which serve as A and as B of 32 columns.
const std::string kWrite =
    "for (int i = 0; i < 16; ++i) st_shared_u32(dynamic_shared() + 4 * thread_index() + 512 * i, 0);\n";
const std::string kShow = "fence_proxy_async_shared();\nbar_sync();\n";
const std::string kReady = kTypes + kWrite + kShow;
const std::string kFence = "wgmma_fence();\n";
const std::string kSs = "wgmma_ss<Half, 32, Major::k, Major::k>(d, tile, tile, true);\n";
const std::string kRs = "wgmma_rs<Half, 32, Major::k>(d, a, tile, true);\n";
const std::string kCommit = "wgmma_commit_group();\n";
const std::string kDone = "wgmma_commit_group();\nwgmma_wait_group<0>();\n";
const std::string kOverwrite = "if (thread_index() == 0) st_shared_u32(dynamic_shared(), 1);\n";

HopperCase warpgroup(std::string rule, std::string broken, std::string mended,
                     std::vector<std::string> messages, int threads = 128) {
  return {std::move(rule), std::move(broken), std::move(mended), std::move(messages), threads};
}

}  // namespace

TEST_CASE("wgmma: operands in shared memory") {
  check_cases({
      warpgroup("operands that nothing has written", kTypes + kFence + kSs + kDone,
                kReady + kFence + kSs + kDone, {"which nothing has written"}),
      warpgroup("operands that no fence has shown", kTypes + kWrite + "bar_sync();\n" + kFence + kSs + kDone,
                kReady + kFence + kSs + kDone,
                {"by wgmma of warp", "wrote with no fence.proxy.async before the barrier"}),
      warpgroup("operands that a fence has shown to one reader only",
                kTypes + kWrite + "bar_sync();\nif (thread_index() == 0) fence_proxy_async_shared();\n" +
                    kFence + kSs + kDone,
                kTypes + kWrite + "bar_sync();\nfence_proxy_async_shared();\n" + kFence + kSs + kDone,
                {"by wgmma of warp", "wrote with no fence.proxy.async before the barrier"}),
      warpgroup(
          "operands that other warps have yet to store",
          kTypes + kWrite + "fence_proxy_async_shared();\n" + kFence + kSs + kDone,
          kReady + kFence + kSs + kDone,
          {"race: load of shared address", "which nothing has written", "race: store of shared address"}),
      warpgroup("operands that are overwritten before the wait",
                kReady + kFence + kSs + kCommit + kOverwrite + "wgmma_wait_group<0>();\n",
                kReady + kFence + kSs + kCommit + "wgmma_wait_group<0>();\nbar_sync();\n" + kOverwrite,
                {"race: store of shared address 1024 by thread 0, and load by wgmma of warp",
                 "race: load of shared address 1024 by wgmma of warp"}),
      warpgroup("operands that other warps may still read", kReady + kFence + kSs + kDone + kOverwrite,
                kReady + kFence + kSs + kDone + "bar_sync();\n" + kOverwrite,
                {"race: store of shared address 1024 by thread 0, and load by wgmma of warp",
                 "race: load of shared address 1024 by wgmma of warp"}),
      warpgroup("operands of a group that is not waited for",
                kReady + kFence + kSs + kCommit + kSs + kCommit + "wgmma_wait_group<1>();\nbar_sync();\n" +
                    kOverwrite + "wgmma_wait_group<0>();\n",
                kReady + kFence + kSs + kCommit + kSs + kCommit + "wgmma_wait_group<0>();\nbar_sync();\n" +
                    kOverwrite,
                {"race: store of shared address 1024 by thread 0, and load by wgmma of warp"}),
      warpgroup("operands past the block's memory",
                kReady + kFence + "wgmma_ss<Half, 32, Major::k, Major::k>(d, tile.advanced(16384), tile);\n" +
                    kDone,
                kReady + kFence + kSs + kDone, {"outside the block's 16384 bytes at 1024"}),
  });
}

TEST_CASE("wgmma: registers in flight") {
  check_cases({
      warpgroup("no fence at all", kReady + kSs + kDone, kReady + kFence + kSs + kDone,
                {"wgmma with no wgmma.fence before it"}),
      warpgroup(
          "accumulators that are written before the wait",
          kReady + kFence + kSs + kCommit + "if (lane_index() == 3) d[5] = 1;\nwgmma_wait_group<0>();\n",
          kReady + kFence + kSs + kDone + "if (lane_index() == 3) d[5] = 1;\n",
          {"accumulators of the wgmma at body:6 were written before its wait"}),
      warpgroup("accumulators that are written between two wgmmas",
                kReady + kFence + kSs + "d[0] = 1;\n" + kSs + kDone,
                kReady + "d[0] = 1;\n" + kFence + kSs + kSs + kDone,
                {"wgmma with accumulators that were touched while an earlier wgmma had them in flight"}),
      warpgroup("accumulators that are written without a fence",
                kReady + kFence + kSs + kDone + "for (float& x : d) x += 1;\n" + kSs + kDone,
                kReady + kFence + kSs + kDone + "for (float& x : d) x += 1;\n" + kFence + kSs + kDone,
                {"wgmma with accumulators that were written with no wgmma.fence since"}),
      warpgroup("accumulators of another shape in flight",
                kReady + kFence + kSs +
                    "wgmma_ss<Half, 16, Major::k, Major::k>((float(&)[8])d[8], tile, tile);\n" + kDone,
                kReady + kFence + kSs + kDone +
                    "wgmma_ss<Half, 16, Major::k, Major::k>((float(&)[8])d[8], tile, tile);\n" + kDone,
                {"wgmma with accumulators that a wgmma of another shape has in flight"}),
      warpgroup("A registers that are written before the wait",
                kReady + kFence + kRs + kCommit + "a[2] = thread_index();\nwgmma_wait_group<0>();\n",
                kReady + kFence + kRs + kDone + "a[2] = thread_index();\n",
                {"A registers of the wgmma at body:6 were written before its wait"}),
      warpgroup("A registers that are written without a fence",
                kReady + kFence + kRs + kDone + "a[2] = thread_index();\n" + kRs + kDone,
                kReady + kFence + kRs + kDone + "a[2] = thread_index();\n" + kFence + kRs + kDone,
                {"wgmma with A registers that were written with no wgmma.fence since"}),
      warpgroup("a group that is not committed", kReady + kFence + kSs, kReady + kFence + kSs + kDone,
                {"the block ended with a wgmma that no wgmma.commit_group follows\nkernel small kernel, "
                 "block 0, at body:6"}),
      warpgroup("a group that is not waited for", kReady + kFence + kSs + kCommit,
                kReady + kFence + kSs + kDone,
                {"the block ended with a wgmma in flight, which no wgmma.wait_group covers"}),
  });
}

TEST_CASE("wgmma: warps of a warpgroup") {
  check_cases({
      warpgroup("lanes with different descriptors",
                kReady + kFence +
                    "wgmma_ss<Half, 32, Major::k, Major::k>(d, tile.advanced(16 * (thread_index() == 9)), "
                    "tile);\n" +
                    kDone,
                kReady + kFence + kSs + kDone,
                {"wgmma with other descriptors, or another scale-d, in lane 9 than in lane 0"}),
      warpgroup("warps with different descriptors",
                kReady + kFence +
                    "wgmma_ss<Half, 32, Major::k, Major::k>(d, tile.advanced(32 * warp_index()), tile);\n" +
                    kDone,
                kReady + kFence + kSs + kDone,
                {"wgmma.mma_async with other operands than another warp of the warpgroup"}),
      warpgroup("a warp that stays away", kReady + "if (warp_index() != 2) {\n" + kFence + kSs + kDone + "}",
                kReady + kFence + kSs + kDone,
                {"the block ended with a wgmma.fence that not all warps of warpgroup 0"}),
      warpgroup("a warp that does something else",
                kReady + kFence + "if (warp_index() == 1) {\n" + kSs + "} else {\n" + kSs + "}\n" + kDone,
                kReady + kFence + kSs + kDone,
                {"divergent warpgroup: wgmma.mma_async here, while another warp of it is in"}),
      warpgroup("half a warpgroup", kTypes + kFence, kTypes,
                {"wgmma.fence in a warpgroup of 64 threads, must be 128"}, 64),
      warpgroup("a descriptor with bits of no meaning",
                kReady + kFence +
                    "wgmma_ss<Half, 32, Major::k, Major::k>(d, {tile.bits | 1ull << 49}, tile);\n" + kDone,
                kReady + kFence + kSs + kDone, {"a matrix descriptor that matrix_descriptor() has not made"}),
  });
}

TEST_CASE("accumulators that are read before the wait are NaN where wgmma completes late") {
  const ScopedContext context(kInterpreterDevice);
  struct Params {
    float* out;
  };
  const SmallKernel kernel{kReady + kFence + kSs + kCommit +
                               "st_global_f32(p.out + thread_index(), d[0]);\nwgmma_wait_group<0>();\n"
                               "st_global_f32(p.out + 128 + thread_index(), d[0]);",
                           "float* out;", 128, 16384};
  for (const bool late : {false, true}) {
    CAPTURE(late);
    const DeviceBuffer out(256 * sizeof(float));
    launch(*build(kernel, {late, true, 0}), Params{static_cast<float*>(out.data())}, Buffers{}.output(out));
    std::vector<float> values(256);
    out.download(values.data(), out.size());
    for (std::size_t thread = 0; thread < 128; ++thread) {
      CHECK(std::isnan(values[thread]) == late);
      CHECK(values[128 + thread] == 0.0f);
    }
  }
}
