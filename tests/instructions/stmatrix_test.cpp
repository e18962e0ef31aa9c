// stmatrix on the device under test: elements go where the PTX ISA says.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Lane l's register i holds 1000 i + 2 l and 1000 i + 2 l + 1; row r of block i lies at 32 (8 i + r) bytes.
std::vector<std::uint16_t> stored_by(const std::string& instruction) {
  struct Params {
    void* out;
  };
  const auto kernel = build({R"(
    const int lane = lane_index();
    u32 blocks[4];
    for (int i = 0; i < 4; ++i) blocks[i] = (1000 * i + 2 * lane) | (1000 * i + 2 * lane + 1) << 16;
    st_shared_v4(dynamic_shared() + 32 * lane + 16, {{0, 0, 0, 0}});
    )" + instruction + R"((dynamic_shared() + 32 * lane, blocks);
    bar_sync();
    for (int i = 0; i < 2; ++i)
      st_global_v4(p.out + 32 * lane + 16 * i, ld_shared_v4(dynamic_shared() + 32 * lane + 16 * i));)",
                             "unsigned char* out;", 32, 1024});
  const DeviceBuffer out(1024);
  launch(*kernel, Params{out.data()}, Buffers{}.output(out));
  std::vector<std::uint16_t> values(512);
  out.download(values.data(), 1024);
  return values;
}

}  // namespace

TEST_CASE("stmatrix.x4 stores four blocks, plain and transposed") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    const std::vector<std::uint16_t> out = stored_by(transposed ? "stmatrix_x4_trans" : "stmatrix_x4");
    for (int i = 0; i < 4; ++i) {
      for (int row = 0; row < 8; ++row) {
        for (int col = 0; col < 8; ++col) {
          const int element =
              transposed ? 8 * col + row : 8 * row + col;  // lane 4 row + col / 2, half col % 2
          CHECK(out[static_cast<std::size_t>((8 * i + row) * 16 + col)] == 1000 * i + element);
        }
      }
    }
  }
}
