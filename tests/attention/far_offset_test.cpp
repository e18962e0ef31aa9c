// Rows that lie more than 2^31 elements apart, on the interpreter: memory that nothing touches costs nothing
// there. gpu/large_offset_test.cpp tests every tensor on a GPU.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cstdint>

#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;

bool cannot_spread() {
  if (device_under_test() == kInterpreterDevice) return false;
  MESSAGE("skipped: \"offsets beyond 2^31 elements in Q, K, V and O\" is this test on a GPU");
  return true;
}

/// Copies a tensor to memory with these strides, and touches nothing between its rows.
DeviceBuffer spread(const reference::Tensor& tensor, const TensorStrides& strides) {
  const Layout layout{{tensor.batch, tensor.heads, tensor.rows, tensor.dim}, strides, 0, kFar + (1 << 25)};
  DeviceBuffer far_apart(static_cast<std::size_t>(layout.total) * 2);
  for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
    for (std::int64_t d = 0; d < tensor.dim; ++d) {
      const std::uint16_t bits = to_bits(tensor.at(b, h, r, d), DType::f16);
      far_apart.upload(&bits, 2, static_cast<std::size_t>(offset + d) * 2);
    }
  });
  return far_apart;
}

}  // namespace

TEST_CASE("keys beyond 2^31 elements") {
  if (cannot_spread()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const TensorStrides& strides : {TensorStrides{kFar, 64, 64}, TensorStrides{64, 64, kFar / 128}}) {
    GuardedCall call({.head_dim = 64, .batch = 2, .seqlen_q = 20, .seqlen_k = 130});
    const DeviceBuffer keys = spread(call.k, strides);
    call.args.k = keys.data();
    call.args.k_strides = strides;
    INFO("row stride ", strides.row);
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("backward: queries and keys beyond 2^31 elements") {
  if (cannot_spread()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const TensorStrides strides{64, 64, kFar / 128};
  GuardedBackward call({.head_dim = 64, .seqlen_q = 130, .seqlen_k = 130});
  const DeviceBuffer queries = spread(call.forward.q, strides), keys = spread(call.forward.k, strides);
  call.forward.args.q = queries.data(), call.forward.args.q_strides = strides;
  call.forward.args.k = keys.data(), call.forward.args.k_strides = strides;
  run_and_expect_gradients(context, call);
}
