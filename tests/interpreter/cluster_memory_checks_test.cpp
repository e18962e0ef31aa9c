// The interpreter's checks of accesses to the shared memory of other blocks of the cluster.
#include <doctest/doctest.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../instructions/exchange_kernel.h"
#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// What bodies may use: the ranks of this block and of the other one, the other one's shared memory, mbarriers, and
/// the barrier of the cluster. Takes one line.
const std::string kNames =
    "const u32 rank = block_rank_in_cluster(), other = rank ^ 1; const ClusterAddress there = mapa(s, "
    "other); "
    "const SharedAddress bar = s + 768; const ClusterAddress bar_there = mapa(bar, other); "
    "const auto sync = [] { barrier_cluster_arrive(); barrier_cluster_wait(); }; "
    "(void)rank, (void)there, (void)bar, (void)bar_there; ";

/// A kernel for two clusters of two blocks with two warps each.
BrokenKernel in_clusters(const char* name, const std::string& body, std::vector<std::string> words) {
  return {name, kNames + body, std::move(words), 64, 1024, 4, 2};
}

/// Like in_clusters(). `bar` is an mbarrier of `arrivals` arrivals, and both blocks have begun. Line 1.
BrokenKernel with_mbarrier(const char* name, int arrivals, const std::string& body,
                           std::vector<std::string> words) {
  const std::string init = "if (t == 0) { mbarrier_init(bar, " + std::to_string(arrivals) +
                           "); fence_mbarrier_init(); } sync();\n";
  return in_clusters(name, init + body, std::move(words));
}

/// Block 0 of each cluster stores 512 bytes and copies them to the other one's s. Takes two lines.
const std::string kFill =
    "if (rank == 0 && t < 32) { st_shared_v4(s + 16 * t, Vector16{}); fence_proxy_async_shared(); }\n";
const std::string kCopy =
    "bar_sync(); if (rank == 0 && t == 0) bulk_copy_cluster(there, s, 512, bar_there);\n";
const std::string kExpect = "if (rank == 1 && t == 0) mbarrier_arrive_expect_tx(bar, 512);\n";

}  // namespace

TEST_CASE("clusters: races between blocks") {
  expect_caught({
      in_clusters("a store to what the other block loads",
                  "st_shared_u32(s + 4 * t, 1); sync();\n"
                  "st_cluster_u32(there + 4 * t, 2);\nif (mended) sync();\n"
                  "ld_shared_u32(s + 4 * t);\nsync();",
                  {"race: ", "of shared address 1", "by thread", "with no barrier between them"}),
      in_clusters(
          "a load of what the other block stores",
          "st_shared_u32(s + 4 * t, 1); sync();\n"
          "ld_cluster_u32(there + 4 * t);\nif (mended) sync();\n"
          "st_shared_u32(s + 4 * t, 2);\nsync();",
          {"race: ", "of shared address 1", " of block ", "by thread", "with no barrier between them"}),
      in_clusters("a block's own barrier orders no other block",
                  "st_shared_u32(s + 4 * t, 1); sync();\n"
                  "st_cluster_u32(there + 4 * t, 2);\nif (mended) sync(); else bar_sync();\n"
                  "ld_shared_u32(s + 4 * t);\nsync();",
                  {"race: ", "of shared address 1", "with no barrier between them"}),
      in_clusters("16 bytes over a store of 4",
                  "st_shared_u32(s + 4 * t, 1); sync();\n"
                  "if (t < 16) st_cluster_v4(there + 16 * t, Vector16{});\nif (mended) sync();\n"
                  "ld_shared_u32(s + 4 * t);\nsync();",
                  {"race: ", "of shared address 1", "with no barrier between them"}),
      with_mbarrier("a wait that hears only of its own block", 64,
                    "st_cluster_u32(there + 4 * t, 2);\nmbarrier_arrive_cluster(bar_there);\n"
                    "if (mended) mbarrier_wait_cluster(bar, 0); else mbarrier_wait(bar, 0);\n"
                    "ld_shared_u32(s + 4 * t);\nsync();",
                    {"race: load of shared address 1", "and store by thread", "at body:5"}),
      with_mbarrier("a store after the arrival", 64,
                    "if (!mended) mbarrier_arrive_cluster(bar_there);\nst_cluster_u32(there + 4 * t, 2);\n"
                    "if (mended) mbarrier_arrive_cluster(bar_there);\nmbarrier_wait_cluster(bar, 0);\n"
                    "for (int i = 0; i < 64; ++i) ld_shared_u32(s + 4 * i);\nsync();",
                    {"shared address 1"}),
      in_clusters("memory of the other block that nothing has written",
                  "if (t == 0 && mended) st_shared_u32(s, 1);\nsync();\nld_cluster_u32(there);\nsync();",
                  {"load of shared address 1024 of block ", "which nothing has written", "at body:3"}),
  });
}

TEST_CASE("clusters: blocks that have not begun, or have ended") {
  expect_caught({
      in_clusters("a store to a block that may not have begun",
                  "if (mended) sync();\nif (t == 0) st_cluster_u32(there, 1);\nsync();",
                  {"access to shared address 1024 of block 1, which may not have begun", "block 0, thread 0",
                   "at body:2"}),
      in_clusters("a store to a block that may have ended",
                  "sync();\nif (t == 0) st_cluster_u32(there, 1);\nif (mended) sync();",
                  {"access to shared address 1", " of block ", ", which may have ended",
                   "thread 0 (warp 0, lane 0), at body:2"}),
      in_clusters("a load from a block that may have ended",
                  "st_shared_u32(s + 4 * t, 1); sync();\nld_cluster_u32(there + 4 * t);\nif (mended) sync();",
                  {"access to shared address 1", " of block ", ", which may have ended", "at body:2"}),
      with_mbarrier("an arrival at a block that may have ended", 64,
                    "mbarrier_arrive_cluster(bar_there);\nif (mended) mbarrier_wait_cluster(bar, 0);",
                    {"access to shared address 1", " of block ", ", which may have ended", "at body:2"}),
      in_clusters("an access behind the last barrier",
                  "sync();\nif (rank == 0 && t == 40) st_cluster_u32(there, 1);\nif (mended || rank == 1) "
                  "bar_sync();\nif "
                  "(mended) sync();",
                  {"access to shared address 1024 of block 1, which may have ended", "block 0, thread 40",
                   "at body:2"}),
  });
}

TEST_CASE("clusters: addresses") {
  expect_caught({
      in_clusters("a rank outside of the cluster", "mapa(s, mended ? other : 2);",
                  {"mapa of shared address 1024 of block ", "rank = 2, must be below 2", "at body:1"}),
      in_clusters("an address that mapa has not returned",
                  "sync();\nst_cluster_u32(mended ? there + 4 * t : ClusterAddress{s}, 1);\nsync();",
                  {"shared::cluster address 0x400, must come from mapa", "at body:2"}),
      in_clusters(
          "an address past the other block's memory",
          "sync();\nif (rank == 0 && t == 0) st_cluster_u32(there + (mended ? 0 : 1024), 1);\nsync();",
          {"store of 4 bytes at shared address 2048 of block 1, outside the block's 1024 bytes",
           "at body:2"}),
      in_clusters(
          "a misaligned address",
          "sync();\nif (rank == 0 && t == 0) st_cluster_v4(there + (mended ? 16 : 8), Vector16{});\nsync();",
          {"store of 16 bytes at shared address 1032 of block 1: misaligned", "at body:2"}),
      with_mbarrier(
          "a copy that completes elsewhere", 1,
          kFill +
              "bar_sync();\nif (rank == 0 && t == 0) bulk_copy_cluster(there, s, 512, mended ? "
              "bar_there : mapa(bar, 0));\n" +
              kExpect + "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nsync();",
          {"bulk copy to shared address 1024 of block 1, which completes at an mbarrier of another block",
           "at body:4"}),
      with_mbarrier("a copy of 24 bytes", 1,
                    kFill +
                        "bar_sync();\nif (rank == 0 && t == 0) bulk_copy_cluster(there, s, mended ? 512 : "
                        "24, bar_there);\n" +
                        kExpect + "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nsync();",
                    {"bulk copy of 24 bytes, must be a positive multiple of 16", "at body:4"}),
  });
}

TEST_CASE("clusters: mbarriers of other blocks") {
  expect_caught(
      {with_mbarrier(
           "one arrival too many", 1,
           kExpect + "sync();\nif (rank == 0 && t == 0 && !mended) mbarrier_arrive_cluster(bar_there);\n" +
               kFill + kCopy + "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nsync();",
           {"mbarrier.arrive on the mbarrier at 1792 of block 1", "one arrival too many, the phase takes 1",
            "block 0, thread 0", "at body:4"}),
       in_clusters(
           "an mbarrier that the other block has not initialised",
           "if (mended && t == 0) mbarrier_init(bar, 64);\nsync();\nmbarrier_arrive_cluster(bar_there);\n"
           "mbarrier_wait_cluster(bar, 0);\nsync();",
           {"mbarrier.arrive at shared address 1792 of block ", "where nothing has initialised an mbarrier",
            "at body:3"}),
       in_clusters("an initialisation after the barrier",
                   "if (mended && t == 0) mbarrier_init(bar, 64); sync();\nif (!mended && t == 0) "
                   "mbarrier_init(bar, 64);\n"
                   "mbarrier_arrive_cluster(bar_there);\nsync();\nmbarrier_wait_cluster(bar, 0);\nsync();",
                   {"mbarrier.arrive ", "1792 of block ", "at body:3"})});
}

TEST_CASE("clusters: a deadlock tells where the threads of all blocks wait") {
  expect_caught({
      with_mbarrier("an arrival that does not come", 64,
                    "if (rank == 0 && (t < 32 || mended)) mbarrier_arrive_cluster(bar_there);\n"
                    "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nbar_sync();\nsync();",
                    {"deadlock: every thread waits\nkernel small kernel, blocks ",
                     "64 of 64 threads of block 0 (thread 0 the first): waits at body:1 in "
                     "barrier.cluster.wait (64 of 128 "
                     "threads of the cluster have arrived)",
                     "64 of 64 threads of block 1 (thread 0 the first): waits at body:3 for the mbarrier at "
                     "1792 of block 1 "
                     "(phase 0: 32 of 64 arrivals and 0 bytes are missing)"}),
  });
}

TEST_CASE("clusters: copies between blocks") {
  const std::string agent = "copies between blocks for the mbarrier at 1792 of block 1";
  const std::string wait = "if (rank == 1) mbarrier_wait_cluster(bar, 0);\n";
  expect_caught({
      with_mbarrier("a destination that is read before the wait", 1,
                    kFill + kCopy + kExpect + "if (!mended && rank == 1) ld_shared_u32(s);\n" + wait +
                        "if (rank == 1) ld_shared_u32(s);\nsync();",
                    {"shared address 1024 of block 1"}),
      with_mbarrier("a destination that is overwritten before the wait", 1,
                    kFill + kCopy + kExpect +
                        "if (!mended) sync();\nif (!mended && rank == 1 && t == 0) st_shared_u32(s, 1);\n" +
                        wait + "if (rank == 1 && t == 0) st_shared_u32(s, 1);\nsync();",
                    {"shared address 1024 of block 1", agent, "at body:6"}),
      with_mbarrier(
          "a wait that hears only of its own block", 1,
          kFill + kCopy + kExpect +
              "if (rank == 1) { if (mended) mbarrier_wait_cluster(bar, 0); else mbarrier_wait(bar, 0); }\n"
              "if (rank == 1) ld_shared_u32(s);\nsync();",
          {"race: load of shared address 1024 of block 1", "and store by " + agent, "at body:6"}),
      with_mbarrier("a source that is overwritten too early", 1,
                    kFill + kCopy + "if (mended) {" + kExpect + wait +
                        "sync(); }\nif (rank == 0 && t == 0) st_shared_u32(s, 1);\n" + "if (!mended) {" +
                        kExpect + wait + "sync(); }",
                    {"race: store of shared address 1024 of block 0", "and load by " + agent}),
      with_mbarrier("a source without a fence", 1,
                    "if (rank == 0 && t < 32) { st_shared_v4(s + 16 * t, Vector16{}); if (mended) "
                    "fence_proxy_async_shared(); }\n" +
                        kCopy + kExpect + wait + "sync();",
                    {"asynchronous load of shared address 1024 of block 0 by " + agent,
                     "with no fence.proxy.async before the barrier", "at body:3"}),
      with_mbarrier(
          "a source that nothing has written", 1,
          "if (mended)\n" + kFill + kCopy + kExpect + wait + "sync();",
          {"asynchronous load of shared address 1024 of block 0, which nothing has written", "at body:4"}),
      with_mbarrier("a destination that its block still reads", 1,
                    "if (rank == 1) st_shared_u32(s + 4 * t, 1); fence_proxy_async_shared(); sync();\n"
                    "if (rank == 1) ld_shared_u32(s + 4 * t); if (mended) sync();\n" +
                        kFill + kCopy + kExpect + wait + "sync();",
                    {"of shared address 1", " of block 1"}),
      with_mbarrier(
          "stores to the destination without a fence", 1,
          "if (rank == 1) st_shared_u32(s + 4 * t, 1); if (mended) fence_proxy_async_shared(); sync();\n" +
              kFill + kCopy + kExpect + wait + "sync();",
          {"asynchronous copy to shared address 1024 of block 1, which thread 0 of block 1 wrote with no "
           "fence.proxy.async "
           "after it",
           "at body:4"}),
      with_mbarrier("stores to another block, with a fence for the own one", 1,
                    "if (rank == 1 && t < 32) st_cluster_v4(there + 16 * t, Vector16{}); if (mended) "
                    "fence_proxy_async(); else "
                    "fence_proxy_async_shared();\nsync();\n" +
                        kCopy + kExpect + wait + "sync();",
                    {"asynchronous load of shared address 1024 of block 0 by " + agent,
                     "which thread 0 of block 1 wrote with no "
                     "fence.proxy.async before the barrier",
                     "at body:4"}),
      with_mbarrier(
          "an mbarrier that copies have not been shown", 1,
          "if (t == 0) mbarrier_init(bar + 8, 1); if (mended && t == 0) fence_mbarrier_init(); sync();\n" +
              kFill +
              "bar_sync(); if (rank == 0 && t == 0) bulk_copy_cluster(there, s, 512, bar_there + 8);\n"
              "if (rank == 1 && t == 0) mbarrier_arrive_expect_tx(bar + 8, 512);\n"
              "if (rank == 1) mbarrier_wait_cluster(bar + 8, 0);\nsync();",
          {"asynchronous copy on the mbarrier at 1800 of block 1, with no fence.mbarrier_init by thread 0 of "
           "block 1",
           "at body:4"}),
  });
}

TEST_CASE("clusters: blocks that end during a copy") {
  expect_caught({
      with_mbarrier(
          "a destination that does not wait", 1,
          kFill + kCopy + kExpect + "if (mended && rank == 1) mbarrier_wait_cluster(bar, 0);\nsync();",
          {"bulk copy to shared address 1024 of block 1, which may have ended before the copy: none of its "
           "threads "
           "waits for the mbarrier at 1792 of block 1",
           "at body:3"}),
      with_mbarrier("a copy whose bytes no phase expects", 1,
                    kFill + kCopy +
                        "if (rank == 1 && t == 0) { if (mended) mbarrier_arrive_expect_tx(bar, 512); else "
                        "mbarrier_arrive(bar); }\n"
                        "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nsync();",
                    {"the mbarrier at 1792 of block 1 (phase "}),
      with_mbarrier(
          "a source that does not hear of the wait", 1,
          kFill + kCopy + kExpect + "if (rank == 1) mbarrier_wait_cluster(bar, 0);\nif (mended) sync();",
          {"bulk copy from shared address 1024 of block 0, which may have ended before the copy: none of its "
           "threads "
           "knows of a wait for the mbarrier at 1792 of block 1",
           "at body:3"}),
  });
}

TEST_CASE("clusters: a launch without them") {
  const std::string body =
      "const SharedAddress bar = s + 768; if (t == 0) { mbarrier_init(bar, 1); fence_mbarrier_init(); } "
      "bar_sync();\n"
      "if (t == 0 && !mended) bulk_copy_cluster(mapa(s + 256, 0), s, 16, mapa(bar, 0));";
  expect_caught({{"a copy between blocks",
                  body,
                  {"bulk copy between blocks in a launch without clusters", "at body:2"},
                  32,
                  1024,
                  1,
                  1}});
}

TEST_CASE("clusters: a right kernel runs in every order") {
  const KernelBinary binary = compile_for_interpreter(exchange_kernel());
  constexpr int kBlocks = 8, kCluster = 4;
  const ScopedContext context(kInterpreterDevice);
  std::vector<float> values(kBlocks * kExchangeThreads);
  DeviceBuffer out(values.size() * sizeof(float));
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    for (const auto& [late, checks] :
         {std::pair(false, true), std::pair(true, true), std::pair(true, false)}) {
      CAPTURE(seed);
      CAPTURE(late);
      out.fill(0xff);
      const auto kernel = interpreter::load_interpreted_kernel(binary, {late, checks, seed});
      launch(*kernel, out.data(), Buffers{}.output(out), kBlocks, kCluster);
      out.download(values.data(), out.size());
      CHECK(values == exchanged(kBlocks, kCluster));
    }
  }
}
