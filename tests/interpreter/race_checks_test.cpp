// Two threads that access the same shared bytes, one of them storing, need a barrier between them. Each
// kernel stops at the same line in every order of its warps and lanes.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("races between warps") {
  expect_caught({
      {"two stores",
       "if (t % 32 == 0) st_shared_u32(mended ? s + t : s, 1);",
       {"race: store of shared address 1024 by thread", "and store by thread", "with no barrier between them",
        "at body:1"},
       64},
      {"a store after a load",
       "st_shared_u32(s + 4 * t, 1);\nbar_sync();\n"
       "st_shared_u32(s + 4 * t, 2);\n"
       "if (mended) bar_sync();\n"
       "ld_shared_u32(s + 4 * (t ^ 32));",
       {"race: store of shared address", "and load by thread", "at body:3"},
       64},
      {"a load after a store",
       "st_shared_u32(s + 4 * t, 1);\nbar_sync();\n"
       "ld_shared_u32(s + 4 * (t ^ 32));\n"
       "if (mended) bar_sync();\n"
       "st_shared_u32(s + 4 * t, 2);",
       {"race: load of shared address", "and store by thread", "at body:3"},
       64},
      {"a store to what all threads load",
       "if (t == 0) st_shared_u32(s, 1);\nbar_sync();\n"
       "ld_shared_u32(s); if (mended) bar_sync(); if (t == 95) st_shared_u32(s, 2);",
       {"race: ", "of shared address 1024 by thread", "by thread 95", "at body:3"},
       96},
      {"a store by a thread that knows of some loads alone",
       "if (t == 0) st_shared_u32(s, 1);\nbar_sync();\n"
       "ld_shared_u32(s); mended ? bar_sync() : bar_warp_sync(); if (t == 32) st_shared_u32(s, 2);",
       {"race: ", "of shared address 1024 by thread", "at body:3"},
       64},
      {"a narrow load inside a wide store",
       "st_shared_v4(s + 16 * t, Vector16{});\nbar_sync();\n"
       "st_shared_v4(s + 16 * t, Vector16{});\n"
       "if (mended) bar_sync();\n"
       "ld_shared_u32(s + 16 * (t ^ 32) + 12);",
       {"race: store of shared address", "and load by thread", "at body:3"},
       64},
      {"a warp's barrier orders no other warp",
       "st_shared_u32(s + 4 * t, 1);\nbar_sync();\n"
       "st_shared_u32(s + 4 * t, 2); mended ? bar_sync() : bar_warp_sync(); ld_shared_u32(s + 4 * (t ^ 32));",
       {"race: ", "of shared address", "at body:3"},
       64},
      {"a barrier too few in a loop over a buffer",
       "for (int i = 0; i < 3; ++i) {\n"
       "  st_shared_u32(s + 4 * t, 1); bar_sync(); ld_shared_u32(s + 4 * ((t + 32) % 96)); if (mended) "
       "bar_sync();\n"
       "}",
       {"race: ", "of shared address", "at body:2"},
       96},
  });
}

TEST_CASE("races between the lanes of a warp") {
  expect_caught({
      {"two stores",
       "st_shared_u32(mended ? s + 4 * t : s, 1);",
       {"race: store of shared address 1024 by thread 1, and store by thread 0",
        "thread 1 (warp 0, lane 1), at body:1"}},
      {"a store after a load",
       "st_shared_u32(s + 4 * t, 1);\nbar_warp_sync();\n"
       "st_shared_u32(s + 4 * t, 2);\n"
       "if (mended) bar_warp_sync();\n"
       "ld_shared_u32(s + 4 * (t ^ 1));",
       {"race: store of shared address 1028 by thread 1, and load by thread 0",
        "thread 1 (warp 0, lane 1), at body:3"}},
      {"a load after a store",
       "st_shared_u32(s + 4 * t, 1);\nbar_warp_sync();\n"
       "ld_shared_u32(s + 4 * (t ^ 1));\n"
       "if (mended) bar_warp_sync();\n"
       "st_shared_u32(s + 4 * t, 2);",
       {"race: load of shared address 1024 by thread 1, and store by thread 0",
        "thread 1 (warp 0, lane 1), at body:3"}},
      {"a shuffle orders no memory",
       "st_shared_u32(s + 4 * t, 1);\n"
       "shfl_bfly(1.0f, 1);\n"
       "if (mended) bar_warp_sync();\n"
       "ld_shared_u32(s + 4 * (t ^ 1));",
       {"race: load of shared address", "and store by thread", "at body:4"}},
      {"ldmatrix of rows that other lanes have stored",
       "st_shared_v4(s + 16 * t, Vector16{});\n"
       "if (mended) bar_warp_sync();\n"
       "u32 m[4];\n"
       "ldmatrix_x4(m, s + 16 * (t ^ 1));",
       {"race: load of shared address 1040 by thread 0, and store by thread 1",
        "thread 0 (warp 0, lane 0), at body:4"}},
  });
}
