// All lanes of a warp must reach the same warp-wide instruction.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the message about a warp of which only the first half has reached `instruction` at body:2.
std::vector<std::string> half_waits_in(const std::string& instruction) {
  return {"deadlock: every thread waits",
          "16 of 32 threads (thread 0 the first): waits in " + instruction + " at body:2",
          "16 of 32 threads (thread 16 the first): ended"};
}

}  // namespace

TEST_CASE("warp-wide instructions that not all lanes reach") {
  expect_caught({
      {"shuffle", "if (mended || t < 16)\n  shfl_bfly(1.0f, 1);", half_waits_in("shfl.sync.bfly")},
      {"the warp's number, which is a shuffle", "if (mended || t < 16)\n  warp_index();",
       half_waits_in("shfl.sync.idx")},
      {"vote", "if (mended || t < 16)\n  vote_any(true);", half_waits_in("vote.sync.any")},
      {"bar.warp.sync", "if (mended || t < 16)\n  bar_warp_sync();", half_waits_in("bar.warp.sync")},
      {"ldmatrix",
       "u32 m[4]; st_shared_v4(s + 16 * t, Vector16{}); if (mended || t < 16)\n  ldmatrix_x4(m, s + 16 * t);",
       half_waits_in("ldmatrix.x4")},
      {"ldmatrix.trans",
       "u32 m[4]; st_shared_v4(s + 16 * t, Vector16{}); if (mended || t < 16)\n"
       "  ldmatrix_x4_trans(m, s + 16 * t);",
       half_waits_in("ldmatrix.x4.trans")},
      {"mma",
       "float d[4] = {}; const u32 a[4] = {}; if (mended || t < 16)\n  mma_m16n8k16<Half>(d, a, 0, 0);",
       half_waits_in("mma.m16n8k16")},
      {"a lane that leaves a loop early",
       "for (int i = 0; i < (mended || t != 31 ? 3 : 2); ++i)\n  shfl_bfly(1.0f, 1);",
       {"31 of 32 threads (thread 0 the first): waits in shfl.sync.bfly at body:2",
        "1 of 32 threads (thread 31 the first): ended"}},
  });
}

TEST_CASE("lanes of a warp that reach different instructions") {
  expect_caught({
      {"a shuffle and a vote",
       "if (mended || t < 16)\n  shfl_bfly(1.0f, 1);\nelse\n  vote_any(true);",
       {"divergent warp: vote.sync.any here, while lane 0 waits in shfl.sync.bfly at body:2",
        "thread 16 (warp 0, lane 16), at body:4"}},
      {"the two ldmatrix",
       "u32 m[4]; st_shared_v4(s + 16 * t, Vector16{});\n"
       "if (mended || t < 8) ldmatrix_x4(m, s + 16 * t); else ldmatrix_x4_trans(m, s + 16 * t);",
       {"divergent warp: ldmatrix.x4.trans here, while lane 0 waits in ldmatrix.x4 at body:2",
        "thread 8 (warp 0, lane 8), at body:2"}},
      {"mma of two types",
       "float d[4] = {}; const u32 a[4] = {};\n"
       "if (mended || t < 31) mma_m16n8k16<Half>(d, a, 0, 0);\n"
       "else mma_m16n8k16<BFloat16>(d, a, 0, 0);",
       {"divergent warp: mma.m16n8k16 here, while lane 0 waits in mma.m16n8k16 at body:2",
        "thread 31 (warp 0, lane 31), at body:3"}},
      {"the same instruction at two lines",
       "if (mended || t % 2 == 0)\n  shfl_bfly(1.0f, 1);\nelse\n  shfl_bfly(1.0f, 1);",
       {"divergent warp: shfl.sync.bfly here, while lane 0 waits in shfl.sync.bfly at body:2",
        "thread 1 (warp 0, lane 1), at body:4"}},
      {"bar.sync at two lines",
       "if (mended || t < 40)\n  bar_sync();\nelse\n  bar_sync();",
       {"divergent warp: a barrier here, while lane 0 waits in bar.sync 0 at body:2",
        "thread 40 (warp 1, lane 8), at body:4"},
       64},
  });
}
