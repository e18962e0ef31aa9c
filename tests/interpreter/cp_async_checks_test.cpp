// The destination of an asynchronous copy may not be touched before a wait. Then only the waiting thread may
// touch it, until a barrier.
#include <doctest/doctest.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/device.h>

#include <cstdint>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("destinations of asynchronous copies touched too early") {
  expect_caught({
      {"a load before the wait",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>();\n"
       "ld_shared_u32(s + 16 * t);\n"
       "cp_async_wait_group<0>();",
       {"load of shared address 1024, to which an asynchronous copy of thread 0 is in flight",
        "thread 0 (warp 0, lane 0), at body:4"}},
      {"a load of 4 copied bytes before the wait",
       "cp_async_4_zfill(s + 4 * t, p.input + 4 * t, 4);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>();\n"
       "ld_shared_u32(s + 4 * t);\n"
       "cp_async_wait_group<0>();",
       {"load of shared address 1024, to which an asynchronous copy of thread 0 is in flight",
        "thread 0 (warp 0, lane 0), at body:4"}},
      {"ldmatrix before the wait",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>();\n"
       "bar_warp_sync();\nu32 m[4];\n"
       "ldmatrix_x4(m, s + 16 * (t ^ 2));\n"
       "cp_async_wait_group<0>();",
       {"load of shared address 1056, to which an asynchronous copy of thread 2 is in flight",
        "thread 0 (warp 0, lane 0), at body:6"}},
      {"a wait for copies that were not committed",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\n"
       "if (mended) cp_async_commit_group();\n"
       "cp_async_wait_group<0>();\n"
       "ld_shared_u32(s + 16 * t);",
       {"load of shared address 1024, to which an asynchronous copy of thread 0 is in flight", "at body:4"}},
      {"a wait for one group too few",
       "for (int i = 0; i < 2; ++i) {\n"
       "  cp_async_16(s + 32 * t + 16 * i, p.input + 16 * t);\n  cp_async_commit_group();\n}\n"
       "if (mended) cp_async_wait_group<0>(); else cp_async_wait_group<1>();\n"
       "ld_shared_u32(s + 32 * t);\n"
       "ld_shared_u32(s + 32 * t + 16);\n"
       "cp_async_wait_group<0>();",
       {"load of shared address 1040, to which an asynchronous copy of thread 0 is in flight", "at body:7"}},
      {"a store into a copy's destination",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>();\n"
       "st_shared_v4(s + 16 * t, Vector16{});\n"
       "cp_async_wait_group<0>();",
       {"store to shared address 1024, to which an asynchronous copy of thread 0 is in flight", "at body:4"}},
      {"a copy into a copy's destination",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>();\n"
       "cp_async_16_zfill(s + 16 * t, p.input + 16 * t, 0);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"asynchronous copy to shared address 1024, to which an asynchronous copy of thread 0 is in flight",
        "at body:4"}},
  });
}

TEST_CASE("asynchronous copies and other threads") {
  expect_caught({
      {"a load after only the owner has waited",
       "if (t == 0) cp_async_16(s, p.input);\ncp_async_commit_group();\ncp_async_wait_group<0>();\n"
       "if (mended) bar_warp_sync();\n"
       "if (t == 1) ld_shared_u32(s);",
       {"race: load of shared address 1024 by thread 1, and store by thread 0",
        "thread 1 (warp 0, lane 1), at body:5"}},
      {"a barrier before the wait instead of after it",
       "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
       "if (!mended) bar_sync();\n"
       "cp_async_wait_group<0>();\n"
       "if (mended) bar_sync();\n"
       "ld_shared_u32(s + 16 * (t ^ 32));",
       {"load of shared address", "to which an asynchronous copy of thread", "is in flight", "at body:6"},
       64},
      {"a copy to what another lane has loaded",
       "if (t == 1) st_shared_u32(s, 1);\nbar_warp_sync();\nif (t == 0) ld_shared_u32(s);\n"
       "if (mended) bar_warp_sync();\n"
       "if (t == 1) cp_async_16(s, p.input);\ncp_async_commit_group();\ncp_async_wait_group<0>();",
       {"race: asynchronous copy of shared address 1024 by thread 1, and load by thread 0",
        "thread 1 (warp 0, lane 1), at body:5"}},
      {"a ring whose slot is refilled while a warp still loads it",
       "for (int i = 0; i < 3; ++i) {\n"
       "  cp_async_16(s + 16 * t, p.input + 16 * i); cp_async_commit_group(); cp_async_wait_group<0>(); "
       "bar_sync(); ld_shared_v4(s + 16 * (t ^ 32)); if (mended) bar_sync();\n"
       "}",
       {"race: ", "of shared address", "with no barrier between them", "at body:2"},
       64},
  });
}

TEST_CASE("asynchronous copies that are never waited for, or read too much") {
  expect_caught({
      {"committed",
       "cp_async_16(s + 16 * t, p.input);\ncp_async_commit_group();\nif (mended) cp_async_wait_group<0>();",
       {"asynchronous copy to shared address 1024, never waited for",
        "thread 0 (warp 0, lane 0), at body:1"}},
      {"not committed",
       "\nif (t == 4) cp_async_16(s, p.input);\nif (mended) "
       "cp_async_commit_group();\ncp_async_wait_group<0>();",
       {"asynchronous copy to shared address 1024, never waited for",
        "thread 4 (warp 0, lane 4), at body:2"}},
      {"all but the last group",
       "cp_async_16(s + 32 * t, p.input);\ncp_async_commit_group();\n"
       "cp_async_16(s + 32 * t + 16, p.input);\ncp_async_commit_group();\n"
       "if (mended) cp_async_wait_group<0>(); else cp_async_wait_group<1>();",
       {"asynchronous copy to shared address 1040, never waited for", "at body:3"}},
      {"more bytes read than written",
       "cp_async_16_zfill(s + 16 * t, p.input, mended ? 16 : 32);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"asynchronous copy of 16 bytes, 32 of them read", "at body:1"}},
      {"fewer than none read",
       "cp_async_16_zfill(s + 16 * t, p.input, mended ? 0 : -16);\ncp_async_commit_group();\n"
       "cp_async_wait_group<0>();",
       {"asynchronous copy of 16 bytes, -16 of them read", "at body:1"}},
  });
}

TEST_CASE("asynchronous copies that arrive at an mbarrier") {
  const std::string init =
      "const SharedAddress bar = s + 1016; if (t == 0) mbarrier_init(bar, 32); bar_sync();\n";
  const std::string copy = "cp_async_16(s + 16 * t, p.input + 16 * t);\n";
  expect_caught({
      {"a load before the wait",
       init + copy +
           "cp_async_mbarrier_arrive(bar);\nif (mended) mbarrier_wait(bar, 0);\n"
           "ld_shared_u32(s + 16 * (t ^ 1));\nmbarrier_wait(bar, 0);",
       {"load of shared address", "at body:5"}},
      {"an arrival that does not wait for copies",
       init + copy +
           "if (mended) cp_async_mbarrier_arrive(bar); else mbarrier_arrive(bar);\nmbarrier_wait(bar, 0);\n"
           "ld_shared_u32(s + 16 * (t ^ 1));",
       {"load of shared address", "to which an asynchronous copy of thread", "is in flight", "at body:5"}},
      {"what a thread stores after its arrival",
       init + copy +
           "cp_async_mbarrier_arrive(bar);\nif (t == 1) st_shared_u32(s + 512, 1);\nmbarrier_wait(bar, 0);\n"
           "if (mended) bar_warp_sync();\nif (t == 0) ld_shared_u32(s + 512);",
       {"race: load of shared address 1536 by thread 0, and store by thread 1", "at body:7"}},
      {"an mbarrier that nothing has initialised",
       "const SharedAddress bar = s + 1016; if (mended && t == 0) mbarrier_init(bar, 32); bar_sync();\n" +
           copy + "cp_async_mbarrier_arrive(bar);\nmbarrier_wait(bar, 0);",
       {"cp.async.mbarrier.arrive at shared address 2040, where nothing has initialised an mbarrier",
        "at body:3"}},
  });
}

TEST_CASE("asynchronous copies whose arrival nobody awaits are caught if they complete late") {
  const ScopedContext current(kInterpreterDevice);
  DeviceBuffer input(32 * 16), output(32 * 16);
  input.fill(1);
  const KernelBinary binary = compile_for_interpreter(small_kernel(
      {"",
       "if (t == 0) mbarrier_init(s + 1016, 32);\nbar_sync();\ncp_async_16(s + 16 * t, p.input + 16 * t);\n"
       "cp_async_mbarrier_arrive(s + 1016);\nif (mended) mbarrier_wait(s + 1016, 0);",
       {}}));
  const auto kernel = interpreter::load_interpreted_kernel(binary, {true, true, 0});
  BrokenParams params{static_cast<const std::byte*>(input.data()), static_cast<std::byte*>(output.data())};
  const Buffers buffers = Buffers().input(input).output(output);
  CHECK_THROWS_WITH_AS(launch(*kernel, params, buffers), doctest::Contains("never waited for"), KernelFault);
  params.mended = true;
  CHECK_NOTHROW(launch(*kernel, params, buffers));
}

TEST_CASE("without checks a load before its wait finds the data if copies complete early, and NaN if late") {
  const ScopedContext current(kInterpreterDevice);
  DeviceBuffer input(32 * 16), output(32 * 16);
  const std::vector<std::uint32_t> data(32 * 4, 0x3f803f80);
  input.upload(data.data(), input.size());
  const KernelBinary binary = compile_for_interpreter(
      small_kernel({"",
                    "st_shared_v4(s + 16 * t, Vector16{});\n"
                    "cp_async_16(s + 16 * t, p.input + 16 * t);\ncp_async_commit_group();\n"
                    "const Vector16 early = ld_shared_v4(s + 16 * t);\ncp_async_wait_group<0>();\n"
                    "st_global_v4(p.output + 16 * t, early);",
                    {}}));
  const BrokenParams params{static_cast<const std::byte*>(input.data()),
                            static_cast<std::byte*>(output.data())};
  for (const bool late : {false, true}) {
    const auto kernel = interpreter::load_interpreted_kernel(binary, {late, false, 0});
    launch(*kernel, params);
    std::vector<std::uint32_t> found(data.size());
    output.download(found.data(), output.size());
    CHECK(found == (late ? std::vector<std::uint32_t>(data.size(), 0xffffffff) : data));
  }
}
