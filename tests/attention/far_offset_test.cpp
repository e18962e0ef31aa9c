// Keys that lie more than 2^31 elements apart, on the interpreter: of the memory between them nothing is ever
// touched, so that it costs nothing. (gpu/large_offset_test.cpp does it for every tensor on a GPU.)
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cstdint>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("keys beyond 2^31 elements") {
  if (device_under_test() != kInterpreterDevice) {
    MESSAGE("skipped: \"offsets beyond 2^31 elements in Q, K, V and O\" is this test on a GPU");
    return;
  }
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const Shape shape{2, 1, 130, 64};
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;
  for (const TensorStrides& strides : {TensorStrides{kFar, 64, 64}, TensorStrides{64, 64, kFar / 128}}) {
    const Layout layout{shape, strides, 0, kFar + (1 << 25)};
    GuardedCall call({.head_dim = 64, .batch = 2, .seqlen_q = 20, .seqlen_k = 130});
    DeviceBuffer far_apart(static_cast<std::size_t>(layout.total) * 2);
    for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
      for (std::int64_t d = 0; d < shape.dim; ++d) {
        const std::uint16_t bits = to_bits(call.k.at(b, h, r, d), DType::f16);
        far_apart.upload(&bits, 2, static_cast<std::size_t>(offset + d) * 2);
      }
    });
    call.args.k = far_apart.data();
    call.args.k_strides = strides;
    INFO("row stride ", strides.row);
    run_and_expect_contract(context, call);
  }
}
