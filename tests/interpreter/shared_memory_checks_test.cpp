// A thread may access its block's shared memory, and load only bytes that were written.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("shared accesses outside the block's allocation") {
  expect_caught({
      {"store before the start",
       "if (t == 0) st_shared_u32(mended ? s : s - 4, 1);",
       {"store of 4 bytes at shared address 1020, outside the block's 1024 bytes at 1024",
        "thread 0 (warp 0, lane 0), at body:1"}},
      {"store at the end of the address space",
       "if (t == 0) st_shared_u32(mended ? s : 0xfffffffcu, 1);",
       {"store of 4 bytes at shared address 4294967292, outside", "at body:1"}},
      {"4-byte store just past the end",
       "if (t == 3)\n  st_shared_u32(s + (mended ? 1020 : 1024), 1);",
       {"store of 4 bytes at shared address 2048, outside", "thread 3 (warp 0, lane 3), at body:2"}},
      {"4-byte load just past the end",
       "if (t == 0) st_shared_u32(s + 1020, 1);\nif (t == 0) ld_shared_u32(s + (mended ? 1020 : 1024));",
       {"load of 4 bytes at shared address 2048, outside", "at body:2"},
       32},
      {"16-byte store across the end",
       "if (t == 0) st_shared_v4(s + (mended ? 1008 : 1024), Vector16{});",
       {"store of 16 bytes at shared address 2048, outside the block's 1032 bytes", "at body:1"},
       32,
       1032},
      {"16-byte load across the end",
       "if (t == 0) st_shared_v4(s + 1008, Vector16{});\nif (t == 0) ld_shared_v4(s + (mended ? 1008 : "
       "1024));",
       {"load of 16 bytes at shared address 2048, outside", "at body:2"},
       32,
       1032},
      {"ldmatrix of a row past the end",
       "st_shared_v4(s + 16 * t, Vector16{});\nbar_warp_sync();\n"
       "u32 m[4];\nldmatrix_x4(m, s + (mended || t != 7 ? 16 * t : 1024));",
       {"load of 16 bytes at shared address 2048, outside", "thread 7 (warp 0, lane 7), at body:4"}},
      {"asynchronous copy past the end",
       "cp_async_16(s + (mended ? 16 * t : 1024), p.input);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"asynchronous copy of 16 bytes at shared address 2048, outside", "at body:1"}},
  });
}

TEST_CASE("shared accesses that are not aligned to their width") {
  expect_caught({
      {"4-byte store",
       "st_shared_u32(s + 4 * t + (mended ? 0 : 2), 1);",
       {"store of 4 bytes at shared address 1026: misaligned", "at body:1"}},
      {"4-byte load",
       "st_shared_v4(s + 16 * t, Vector16{});\nld_shared_u32(s + 16 * t + (mended ? 0 : 2));",
       {"load of 4 bytes at shared address 1026: misaligned", "at body:2"}},
      {"16-byte store",
       "st_shared_v4(s + 16 * t + (mended ? 0 : 8), Vector16{});",
       {"store of 16 bytes at shared address 1032: misaligned", "at body:1"}},
      {"16-byte load",
       "st_shared_v4(s + 32 * t, Vector16{});\nst_shared_v4(s + 32 * t + 16, Vector16{});\n"
       "ld_shared_v4(s + 32 * t + (mended ? 0 : 8));",
       {"load of 16 bytes at shared address 1032: misaligned", "at body:3"}},
      {"ldmatrix",
       "st_shared_v4(s + 16 * t, Vector16{});\nbar_warp_sync();\n"
       "u32 m[4];\nldmatrix_x4_trans(m, s + 16 * t + (mended || t != 30 ? 0 : 8));",
       {"load of 16 bytes at shared address 1512: misaligned", "thread 30 (warp 0, lane 30), at body:4"}},
      {"asynchronous copy",
       "cp_async_16(s + 16 * t + (mended ? 0 : 8), p.input);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"asynchronous copy of 16 bytes at shared address 1032: misaligned", "at body:1"}},
  });
}

TEST_CASE("loads of shared memory that nothing wrote") {
  expect_caught({
      {"4 bytes",
       "if (mended || t != 9) st_shared_u32(s + 4 * t, 1);\nld_shared_u32(s + 4 * t);",
       {"load of shared address 1060, which nothing has written", "thread 9 (warp 0, lane 9), at body:2"}},
      {"the last of 16 bytes",
       "for (int i = 0; i < (mended ? 4 : 3); ++i) st_shared_u32(s + 16 * t + 4 * i, 1);\n"
       "ld_shared_v4(s + 16 * t);",
       {"load of shared address 1036, which nothing has written", "thread 0 (warp 0, lane 0), at body:2"}},
      {"ldmatrix of one row too many",
       "if (mended || t != 31) st_shared_v4(s + 16 * t, Vector16{});\nbar_warp_sync();\n"
       "u32 m[4];\nldmatrix_x4(m, s + 16 * t);",
       {"load of shared address 1520, which nothing has written", "thread 31 (warp 0, lane 31), at body:4"}},
      {"what another block wrote to its own",
       "if (mended || block_index() == 0) st_shared_u32(s + 4 * t, 1);\nld_shared_u32(s + 4 * t);",
       {"load of shared address 1024, which nothing has written", "block 1, thread 0", "at body:2"},
       32,
       1024,
       16},
  });
}
