// A warp-specialised pipeline on the device under test: TMA, mbarriers, wgmma, stmatrix and setmaxnreg
// together.
#include <doctest/doctest.h>
#include <reference/attention_reference.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "../support/device_under_test.h"
#include "pipeline_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kTiles = 3, kBlocks = 2, kDim = 128, kRows = 128 * kTiles, kKeys = 128 * kBlocks;

struct Params {
  TensorMap q, k, v, o;
  void* counter;
  int grid;
  int tiles;
  int blocks;
};

TensorMap map_of(const DeviceBuffer& buffer, int rows, int box_rows, int box_pages) {
  TensorMapSpec spec;
  spec.data = buffer.data();
  spec.swizzle = Swizzle::span128;
  spec.dimensions[0] = {64, 0, 64};
  spec.dimensions[1] = {rows, 2 * kDim, box_rows};
  spec.dimensions[2] = {kDim / 64, 128, box_pages};
  return encode_tensor_map(spec);
}

/// Returns values so small that every sum is exact in float16.
std::vector<float> values(int rows, int step) {
  std::vector<float> list;
  for (int i = 0; i < rows * kDim; ++i) list.push_back(static_cast<float>((i * step + i / 7) % 3 - 1));
  return list;
}

DeviceBuffer uploaded(const std::vector<float>& list) {
  std::vector<std::uint16_t> bits;
  for (const float value : list) bits.push_back(to_bits(value, DType::f16));
  DeviceBuffer buffer(2 * bits.size());
  buffer.upload(bits.data(), buffer.size());
  return buffer;
}

}  // namespace

TEST_CASE("a warp-specialised pipeline computes the same as a loop on the host") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  std::vector<float> q(kRows * kDim);
  for (std::size_t row = 0; row < kRows; ++row) q[row * kDim + row * 5 % kDim] = 1;
  const std::vector<float> k = values(kKeys, 5), v = values(kKeys, 11);
  const DeviceBuffer q_in = uploaded(q), k_in = uploaded(k), v_in = uploaded(v), out(2 * q.size());
  DeviceBuffer counter(4);
  counter.fill(0);
  const Params params{map_of(q_in, kRows, 128, 2),
                      map_of(k_in, kKeys, 128, 2),
                      map_of(v_in, kKeys, 128, 2),
                      map_of(out, kRows, 64, 1),
                      counter.data(),
                      1,
                      kTiles,
                      kBlocks};
  launch(*build(pipelined_kernel()), params,
         Buffers{}.input(q_in).input(k_in).input(v_in).output(out).in_out(counter));
  std::vector<std::uint16_t> o(q.size());
  out.download(o.data(), out.size());
  int wrong = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t dim = 0; dim < kDim; ++dim) {
      float expected = 0;
      for (std::size_t key = 0; key < kKeys; ++key)
        expected += std::exp2(k[key * kDim + row * 5 % kDim]) * v[key * kDim + dim];
      wrong += from_bits(o[row * kDim + dim], DType::f16) != expected;
    }
  }
  CHECK(wrong == 0);
}
