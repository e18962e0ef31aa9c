// Compiles all kernels in parallel, then runs each under all options.
#include "hopper_case.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/device.h>
#include <runtime/parallel.h>
#include <runtime/tensor_map.h>

#include <algorithm>
#include <cstddef>
#include <thread>

#include "broken_kernel.h"

namespace fa2::test {
namespace {

struct Params {
  TensorMap map;
  TensorMap out_map;
  TensorMap early_map;
  const void* in;
  void* out;
  void* input;
  void* counter;
  void* sums;
};
constexpr const char* kParams =
    "TensorMap map; TensorMap out_map; TensorMap early_map; const unsigned char* in; float* out; float* "
    "input; u32* counter; "
    "float* sums;";
constexpr int kTensorBytes = 64 * 64 * 2, kSharedBytes = 16384;

struct World {
  ScopedContext context{kInterpreterDevice};
  /// The input is the second half, so that no buffer lies before it.
  DeviceBuffer halves{2 * kTensorBytes};
  std::byte* const in = static_cast<std::byte*>(halves.data()) + kTensorBytes;
  DeviceBuffer out{kTensorBytes}, sums{kTensorBytes}, counter{4};
  Params params{};
  Buffers buffers;

  World() {
    halves.fill(0);
    out.fill(0);
    sums.fill(0);
    counter.fill(0);
    params = {map_of(in), map_of(out.data()), map_of(in, 64), in, out.data(),
              in,         counter.data(),     sums.data()};
    buffers.list.push_back({.name = "input", .begin = in, .bytes = kTensorBytes, .access = Access::read});
    buffers.output(out).in_out(counter).in_out(sums);
  }
  static TensorMap map_of(void* data, int rows_before = 0) {
    TensorMapSpec spec;
    spec.data = static_cast<std::byte*>(data) - 128 * rows_before;
    spec.swizzle = Swizzle::span128;
    spec.dimensions[0] = {64, 0, 64};
    spec.dimensions[1] = {rows_before + 64, 128, 8};
    return encode_tensor_map(spec);
  }
};

std::string fault_of(const KernelBinary& binary, const interpreter::Options& options, const HopperCase& it) {
  const World world;
  return test::fault_of(*interpreter::load_interpreted_kernel(binary, options), world.params, world.buffers,
                        it.blocks, it.cluster);
}

bool is_one_of(const std::string& fault, const std::vector<std::string>& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [&](const std::string& message) { return fault.find(message) != std::string::npos; });
}

}  // namespace

void check_cases(const std::vector<HopperCase>& cases) {
  std::vector<KernelBinary> binaries(2 * cases.size());
  for_each_index(binaries.size(), static_cast<int>(std::thread::hardware_concurrency()), [&](std::size_t i) {
    const HopperCase& it = cases[i / 2];
    binaries[i] =
        compile_for_interpreter({i % 2 == 0 ? it.broken : it.mended, kParams, it.threads, kSharedBytes});
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const interpreter::Options& options : checked_options()) {
      const std::string name =
          fmt::format("{}, {}, seed {}", cases[i].rule, options.late ? "late" : "early", options.seed);
      CAPTURE(name);
      const std::string fault = fault_of(binaries[2 * i], options, cases[i]);
      CHECK_MESSAGE(is_one_of(fault, cases[i].messages), "stopped by: " << fault);
      CHECK(fault_of(binaries[2 * i + 1], options, cases[i]) == "");
    }
  }
}

}  // namespace fa2::test
