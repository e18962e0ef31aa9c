// All threads of a block must reach each barrier.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("deadlocks: the message says which threads wait where, and how many have arrived") {
  expect_caught({
      {"a warp that does not come",
       "if (mended || t < 32)\n  bar_sync();",
       {"deadlock: every thread waits",
        "32 of 64 threads (thread 0 the first): waits in bar.sync 0 at body:2 (32 of 64 threads have "
        "arrived)",
        "32 of 64 threads (thread 32 the first): ended"},
       64},
      {"a thread that returns while others wait",
       "if (!mended && t == 63) return;\nbar_sync();",
       {"63 of 64 threads (thread 0 the first): waits in bar.sync 0 at body:2 (63 of 64 threads have "
        "arrived)",
        "1 of 64 threads (thread 63 the first): ended"},
       64},
      {"a loop with fewer turns in one warp",
       "for (int i = 0; i < (mended || t < 64 ? 3 : 2); ++i)\n  bar_sync();",
       {"64 of 96 threads (thread 0 the first): waits in bar.sync 0 at body:2 (64 of 96",
        "32 of 96 threads (thread 64 the first): ended"},
       96},
      {"one warp at a barrier, one in a shuffle",
       "if (mended || t < 48)\n  if (t >= 32) shfl_bfly(1.0f, 1);\nbar_sync();",
       {"48 of 64 threads (thread 0 the first): waits in bar.sync 0 at body:3 (48 of 64",
        "16 of 64 threads (thread 32 the first): waits in shfl.sync.bfly at body:2"},
       64},
      {"flags that no block writes",
       "await_global_u32((const u32*)p.input, mended ? 0x03020100 : 7);",
       {"32 of 32 threads (thread 0 the first): waits at body:1 for a flag of another block to become 7, it "
        "is "
        "50462976"},
       32,
       1024,
       5},
  });
}
