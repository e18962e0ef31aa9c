// A kernel may load what the launch's buffers hold, and store to its outputs.
#include <doctest/doctest.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("global accesses outside the launch's buffers") {
  expect_caught({
      {"load before the start",
       "ld_global_u16(p.input - (mended ? 0 : 2));",
       {"load of 2 bytes at global address {input-2}, outside the buffers of this launch: input at {input+0}",
        "thread 0 (warp 0, lane 0), at body:1"}},
      {"load just past the end",
       "if (t == 5)\n  ld_global_u16(p.input + (mended ? 1030 : 1032));",
       {"load of 2 bytes at global address {input+1032}, outside", "thread 5 (warp 0, lane 5), at body:2"}},
      {"load from nowhere",
       "ld_global_u16(mended ? p.input : nullptr);",
       {"load of 2 bytes at global address 0x0, outside", "at body:1"}},
      {"2-byte store just past the end",
       "\nif (t == 33) st_global_u16(p.output + (mended ? 1030 : 1032), 1);",
       {"store of 2 bytes at global address {output+1032}, outside", "thread 33 (warp 1, lane 1), at body:2"},
       64},
      {"4-byte store before the start",
       "st_global_f32(p.output - (mended ? 0 : 4), 1.0f);",
       {"store of 4 bytes at global address {output-4}, outside", "at body:1"}},
      {"16-byte store across the end",
       "st_global_v4(p.output + (mended ? 1008 : 1024), Vector16{});",
       {"store of 16 bytes at global address {output+1024}, outside", "at body:1"}},
      {"asynchronous copy from before the start",
       "cp_async_16(s + 16 * t, p.input - (mended ? 0 : 16));\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"load of 16 bytes at global address {input-16}, outside", "at body:1"}},
      {"asynchronous copy across the end",
       "cp_async_16_zfill(s + 16 * t, p.input + 1024, mended ? 0 : 16);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"load of 16 bytes at global address {input+1024}, outside", "at body:1"}},
  });
}

TEST_CASE("global accesses that are not aligned to their width") {
  expect_caught({
      {"2-byte load",
       "ld_global_u16(p.input + (mended ? 2 : 1));",
       {"load of 2 bytes at global address {input+1}: misaligned", "at body:1"}},
      {"2-byte store",
       "st_global_u16(p.output + (mended ? 2 : 3), 1);",
       {"store of 2 bytes at global address {output+3}: misaligned", "at body:1"}},
      {"4-byte store",
       "st_global_f32(p.output + (mended ? 4 : 2), 1.0f);",
       {"store of 4 bytes at global address {output+2}: misaligned", "at body:1"}},
      {"16-byte store",
       "st_global_v4(p.output + (mended ? 16 : 8), Vector16{});",
       {"store of 16 bytes at global address {output+8}: misaligned", "at body:1"}},
      {"asynchronous copy",
       "cp_async_16(s + 16 * t, p.input + (mended ? 16 : 8));\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"load of 16 bytes at global address {input+8}: misaligned", "at body:1"}},
  });
}

TEST_CASE("stores to an input, and loads of an output that nothing wrote") {
  expect_caught({
      {"store to an input",
       "unsigned char* to = mended ? p.output : const_cast<unsigned char*>(p.input);\n"
       "st_global_u16(to + 2 * t, 1);",
       {"store of 2 bytes at global address {input+0} in input, which this launch may only read", "thread 0",
        "at body:2"}},
      {"load of an output",
       "if (mended || t != 7) st_global_u16(p.output + 2 * t, 1);\n"
       "if (t < 8) ld_global_u16(p.output + 2 * t);",
       {"load of 2 bytes at global address {output+14} in output, which nothing has written",
        "thread 7 (warp 0, lane 7), at body:2"}},
  });
}

TEST_CASE("a launch without buffers may not access global memory") {
  const BrokenKernel kernel{"", "if (!mended) ld_global_u16(p.input);", {}};
  const auto loaded = build(small_kernel(kernel), interpreter::Options{});
  const auto launch_with = [&](const BrokenParams& params) {
    loaded->launch({1}, &params, sizeof params, nullptr, nullptr);
  };
  CHECK_THROWS_AS(launch_with({nullptr, nullptr, false}), KernelFault);
  const std::uint16_t somewhere = 0;
  CHECK_THROWS_AS(launch_with({reinterpret_cast<const std::byte*>(&somewhere), nullptr, false}), KernelFault);
  CHECK_NOTHROW(launch_with({nullptr, nullptr, true}));
}
