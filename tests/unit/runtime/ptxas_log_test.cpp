// Reading ptxas' reports, as NVRTC 13.0 and 12.x write them.
#include <doctest/doctest.h>
#include <runtime/ptxas_log.h>

#include <string>

namespace {

constexpr const char* kTwoKernels =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'other' for 'sm_80'\n"
    "ptxas info    : Function properties for other\n"
    "ptxas         .     14456 bytes stack frame, 16548 bytes spill stores, 30036 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 1 barriers, 14456 bytes cumulative stack size, 360 bytes "
    "cmem[0]\n"
    "ptxas info    : Compile time = 2452.058 ms\n"
    "ptxas info    : Compiling entry function 'kernel' for 'sm_80'\n"
    "ptxas info    : Function properties for kernel\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 12 registers, used 1 barriers, 400 bytes smem, 360 bytes cmem[0]\n"
    "ptxas info    : Compile time = 1.884 ms\n";

}  // namespace

TEST_CASE("registers and static shared memory of the named kernel") {
  const auto report = fa2::parse_ptxas_log(kTwoKernels, "kernel");
  CHECK(report.resources.registers == 12);
  CHECK(report.resources.static_shared_bytes == 400);
  CHECK(report.resources.stack_bytes == 0);
  CHECK(report.resources.spill_store_bytes == 0);
  CHECK(report.resources.spill_load_bytes == 0);
  CHECK(report.wgmma_messages.empty());
}

TEST_CASE("stack and spills of the named kernel") {
  const auto report = fa2::parse_ptxas_log(kTwoKernels, "other");
  CHECK(report.resources.registers == 32);
  CHECK(report.resources.static_shared_bytes == 0);
  CHECK(report.resources.stack_bytes == 14456);
  CHECK(report.resources.spill_store_bytes == 16548);
  CHECK(report.resources.spill_load_bytes == 30036);
}

TEST_CASE("a log without the kernel reports no registers") {
  CHECK(fa2::parse_ptxas_log(kTwoKernels, "kern").resources.registers == 0);
  CHECK(fa2::parse_ptxas_log("", "kernel").resources.registers == 0);
  CHECK(fa2::parse_ptxas_log("fa2.cu(3): error: identifier \"x\" is undefined\n", "kernel")
            .resources.registers == 0);
}

TEST_CASE("functions that were not inlined count") {
  const auto report = fa2::parse_ptxas_log(
      "ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
      "ptxas info    : Function properties for kernel\n"
      "ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 31 registers, used 0 barriers, 144 bytes cumulative stack size\n"
      "ptxas info    : Function properties for _Z1fPfi\n"
      "ptxas         .     128 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads",
      "kernel");
  CHECK(report.resources.stack_bytes == 144);
  CHECK(report.resources.spill_store_bytes == 4);
  CHECK(report.resources.spill_load_bytes == 8);
  CHECK(report.resources.registers == 31);
}

TEST_CASE("lines of CUDA 12, indented and without barriers") {
  const auto report = fa2::parse_ptxas_log(
      "ptxas info    : Compiling entry function 'kernel' for 'sm_80'\n"
      "ptxas info    : Function properties for kernel\n"
      "    0 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 255 registers, 16384 bytes smem, 472 bytes cmem[0]\n",
      "kernel");
  CHECK(report.resources.registers == 255);
  CHECK(report.resources.spill_store_bytes == 4);
  CHECK(report.resources.spill_load_bytes == 12);
  CHECK(report.resources.static_shared_bytes == 16384);
}

TEST_CASE("C75xx messages are kept, wherever they stand; other codes are not") {
  const std::string serialized =
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
      "to "
      "insufficient register resources for the wgmma pipeline in the function 'kernel'";
  const std::string waits =
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 68 by compiler to allow use of "
      "registers "
      "defined by GMMA in function 'kernel'";
  const auto report =
      fa2::parse_ptxas_log(waits + "\n" + serialized +
                               "\nptxas info    : (C7400) something else\n"
                               "ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
                               "ptxas info    : Used 30 registers, used 0 barriers\n",
                           "kernel");
  REQUIRE(report.wgmma_messages.size() == 2);
  CHECK(report.wgmma_messages[0] == waits);
  CHECK(report.wgmma_messages[1] == serialized);
  CHECK(report.resources.registers == 30);
}
