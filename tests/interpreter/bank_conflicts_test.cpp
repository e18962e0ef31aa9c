// Bank conflicts are counted per source line, and logged at level info.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "../support/captured_log.h"
#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the report of a launch of two blocks.
std::string report_of(const std::string& body, int threads = 32) {
  BrokenKernel kernel{"", body, {}, threads};
  kernel.shared_bytes = 16384;
  const auto loaded = build(small_kernel(kernel), interpreter::Options{});
  CapturedLog captured;
  log().set_level(spdlog::level::info);
  launch(*loaded, BrokenParams{}, {}, 2);
  return captured.text();
}

/// Returns the report's line for line 1 of the body.
std::string conflicts(int wavefronts, int least) {
  return fmt::format("bank conflicts of small kernel at body:1: {} wavefronts, {} would suffice\n",
                     wavefronts, least);
}

}  // namespace

TEST_CASE("bank conflicts of plain accesses") {
  CHECK(report_of("st_shared_u32(s + 128 * t, 1);") == conflicts(2 * 32, 2));
  CHECK(report_of("st_shared_u32(s + 8 * t, 1);") == conflicts(2 * 2, 2));
  CHECK(report_of("st_shared_u32(s + 4 * t, 1);") == "");
  CHECK(report_of("st_shared_u32(s + 4 * (31 - t), 1);") == "");
  CHECK(report_of("st_shared_u32(s + 132 * t, 1);") == "");
  CHECK(report_of("st_shared_v4(s + 64 * t, Vector16{});") == conflicts(2 * 16, 2 * 4));
  CHECK(report_of("st_shared_v4(s + 16 * t, Vector16{});") == "");
  // Eight lanes access at a time, two in each bank. The next eight do not matter.
  CHECK(report_of("st_shared_v4(s + 128 * (t / 4) + 64 * (t / 8 % 2) + 16 * (t % 4), Vector16{});") ==
        conflicts(2 * 8, 2 * 4));
  CHECK(report_of("for (int i = 0; i < 3; ++i) st_shared_u32(s + 128 * (t % 32) + 4096 * (t / 32), 1);",
                  64) == conflicts(2 * 3 * 2 * 32, 2 * 3 * 2));
}

TEST_CASE("lanes that load the same word share a wavefront") {
  CHECK(report_of("if (t == 0) st_shared_v4(s, Vector16{});\nbar_warp_sync();\nld_shared_u32(s);") == "");
  CHECK(report_of("if (t < 8) st_shared_v4(s + 16 * t, Vector16{});\nbar_warp_sync();\n"
                  "ld_shared_u32(s + 4 * (t / 4));") == "");
}

TEST_CASE("bank conflicts of ldmatrix") {
  const std::string fill = "\nfor (int i = 0; i < 8; ++i) st_shared_v4(s + 16 * (t + 32 * i), Vector16{});\n";
  // Each block is eight rows of 128 bytes; a swizzle spreads its chunks over all banks.
  const auto load = [&](const std::string& address) {
    return fill + "bar_warp_sync();\nu32 m[4];\n#line 1\nldmatrix_x4(m, " + address + ");";
  };
  CHECK(report_of(load("s + 128 * t")) == conflicts(2 * 32, 2 * 4));
  CHECK(report_of(load("s + 128 * t + 16 * (t % 8)")) == "");
  CHECK(report_of(load("s + 128 * t + 16 * (t % 2)")) == conflicts(2 * 16, 2 * 4));
}

TEST_CASE("without checks nothing is counted") {
  const auto kernel = build(small_kernel({"", "st_shared_u32(s + 128 * t, 1);", {}, 32, 4096}),
                            interpreter::Options{false, false, 0});
  CapturedLog captured;
  log().set_level(spdlog::level::info);
  launch(*kernel, BrokenParams{});
  CHECK(captured.text() == "");
}
