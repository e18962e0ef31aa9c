// Tensors with elements more than 2^31 elements apart, on a GPU with 4 GiB of free memory.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 31;
constexpr std::int64_t kRoom = std::int64_t{1} << 20;  ///< elements for all but the far stride

enum class Dimension { batch, head, row };
constexpr Dimension kDimensions[] = {Dimension::batch, Dimension::head, Dimension::row};
constexpr const char* kNames[] = {"batch", "head", "row"};

/// Returns a layout in which the last index of `far` lies beyond 2^31 elements and the other dimensions are
/// packed. `shift` is 0 for rows aligned to 16 bytes, 1 for misaligned ones.
Layout far_apart(const Shape& s, Dimension far, std::int64_t shift) {
  const auto distance = [&](std::int64_t extent) { return kFar / (extent - 1) / 8 * 8 + 64 + shift; };
  TensorStrides strides;
  if (far == Dimension::batch) strides = {distance(s.batch), s.rows * s.dim, s.dim};
  if (far == Dimension::head) strides = {s.rows * s.dim, distance(s.heads), s.dim};
  if (far == Dimension::row) strides = {s.heads * s.dim, s.dim, distance(s.rows)};
  return {s, strides, 0, kFar + kRoom};
}

std::size_t bytes(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(std::uint16_t);
}

/// Uploads row by row: a 4 GiB image on the host would take longer.
void send_rows(const reference::Tensor& tensor, const Layout& layout, DType dtype, DeviceBuffer& buffer) {
  const std::vector<std::uint16_t> bits = bits_of(tensor, dtype);
  std::int64_t row = 0;
  for_each_row(layout, [&](auto, auto, auto, auto offset) {
    buffer.upload(&bits[static_cast<std::size_t>(row++ * tensor.dim)], bytes(tensor.dim), bytes(offset));
  });
}

reference::Tensor received_rows(const DeviceBuffer& buffer, const Layout& layout, DType dtype) {
  reference::Tensor tensor = constant_tensor(layout.shape, 0);
  std::vector<std::uint16_t> row(static_cast<std::size_t>(layout.shape.dim));
  for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
    buffer.download(row.data(), bytes(layout.shape.dim), bytes(offset));
    for (std::int64_t d = 0; d < layout.shape.dim; ++d)
      tensor.at(b, h, r, d) = from_bits(row[static_cast<std::size_t>(d)], dtype);
  });
  return tensor;
}

/// Returns memory for one tensor; if there is too little, says so and returns nothing.
std::optional<DeviceBuffer> large_buffer() {
  try {
    return DeviceBuffer(bytes(kFar + kRoom));
  } catch (const CudaError& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return std::nullopt;
  }
}

/// CHECKs a call with one far input. NaN around its elements reveals an offset that wraps around.
void check_far_input(Context& context, GuardedCall& call, const reference::Tensor& tensor,
                     const void*& argument, TensorStrides& strides, const Layout& layout,
                     DeviceBuffer& buffer) {
  buffer.fill(0xff);
  send_rows(tensor, layout, call.problem.dtype, buffer);
  argument = buffer.data();
  strides = layout.strides;
  run_and_expect_contract(context, call);
}

void check_far_output(Context& context, GuardedCall& call, const Layout& layout, DeviceBuffer& buffer) {
  buffer.fill(0xff);
  call.args.out = buffer.data();
  call.args.out_strides = layout.strides;
  const AttentionProblem& p = call.problem;
  context.attention(p, call.args);
  const std::vector<float> lse = call.lse();
  const reference::Verdict verdict =
      reference::check(p, call.q, call.k, call.v, static_cast<double>(*call.args.softmax_scale),
                       received_rows(buffer, layout, p.dtype), &lse);
  CHECK_MESSAGE(verdict.ok, verdict.message);
}

void check_each_tensor(Context& context, const AttentionProblem& problem, Dimension far, std::int64_t shift,
                       DeviceBuffer& buffer) {
  const Shape queries{problem.batch, problem.heads_q, problem.seqlen_q, problem.head_dim};
  const Shape keys{problem.batch, problem.heads_kv, problem.seqlen_k, problem.head_dim};
  const Layout of_queries = far_apart(queries, far, shift), of_keys = far_apart(keys, far, shift);
  INFO(std::string(kNames[static_cast<std::size_t>(far)]), " stride, shifted by ", shift);
  const auto fresh_call = [&] {
    GuardedCall call(problem);
    call.args.softmax_scale = 0.125f;
    return call;
  };
  {
    GuardedCall call = fresh_call();
    check_far_input(context, call, call.q, call.args.q, call.args.q_strides, of_queries, buffer);
  }
  {
    GuardedCall call = fresh_call();
    check_far_input(context, call, call.k, call.args.k, call.args.k_strides, of_keys, buffer);
  }
  {
    GuardedCall call = fresh_call();
    check_far_input(context, call, call.v, call.args.v, call.args.v_strides, of_keys, buffer);
  }
  GuardedCall call = fresh_call();
  check_far_output(context, call, of_queries, buffer);
}

}  // namespace

TEST_CASE("offsets beyond 2^31 elements in Q, K, V and O") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  std::optional<DeviceBuffer> buffer = large_buffer();
  if (!buffer) return;
  Context context(untuned());
  const AttentionProblem problem = {.dtype = DType::bf16,
                                    .head_dim = 64,
                                    .mask = MaskKind::causal_bottom_right,
                                    .batch = 2,
                                    .heads_q = 4,
                                    .heads_kv = 2,
                                    .seqlen_q = 131,
                                    .seqlen_k = 197};
  precompile(context, {problem}, {{RowAlignment::bytes16}, {RowAlignment::element}});
  for (const Dimension far : kDimensions) {
    for (const std::int64_t shift : {0, 1}) check_each_tensor(context, problem, far, shift, *buffer);
  }
}
