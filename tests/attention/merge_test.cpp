// merge(): merging attention over slices of the keys gives attention over all of them, and partial outputs
// are weighted correctly.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/merge.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Partial outputs and the merged output, contiguous (part, batch, head, row, head_dim).
struct Case {
  MergeProblem problem;
  std::vector<float> parts;  ///< rounded as the device has them
  std::vector<float> lse;

  std::int64_t rows() const { return problem.batch * problem.heads * problem.seqlen; }
  float& lse_of(std::int64_t part, std::int64_t row) {
    return lse[static_cast<std::size_t>(part * rows() + row)];
  }
  float* row_of(std::int64_t part, std::int64_t row) {
    return &parts[static_cast<std::size_t>((part * rows() + row) * problem.head_dim)];
  }
};

Case random_case(const MergeProblem& problem) {
  Case it{problem, {}, {}};
  const Shape shape{problem.parts, problem.batch * problem.heads, problem.seqlen, problem.head_dim};
  const reference::Tensor tensor = random_tensor(shape, problem.dtype, 5);
  it.parts.assign(tensor.values.begin(), tensor.values.end());
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  it.lse.resize(static_cast<std::size_t>(problem.parts * it.rows()));
  for (float& value : it.lse) value = normal(random);
  return it;
}

std::vector<double> expected_row(Case& it, std::int64_t row, double& lse) {
  const auto has_key = [&](std::int64_t part) { return !std::isinf(it.lse_of(part, row)); };
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t part = 0; part < it.problem.parts; ++part) {
    if (has_key(part)) largest = std::max(largest, double{it.lse_of(part, row)});
  }
  std::vector<double> merged(static_cast<std::size_t>(it.problem.head_dim));
  for (std::int64_t part = 0; part < it.problem.parts; ++part) {
    if (!has_key(part)) continue;
    const double weight = std::exp(it.lse_of(part, row) - largest);
    sum += weight;
    for (std::size_t col = 0; col < merged.size(); ++col) merged[col] += weight * it.row_of(part, row)[col];
  }
  for (double& value : merged) value = sum == 0 ? 0 : value / sum;
  lse = sum == 0 ? double{kInfinity} : largest + std::log(sum);
  return merged;
}

/// Returns the bytes of `values` on the device.
std::vector<std::byte> image_of(const std::vector<float>& values, DType dtype, bool is_float32) {
  std::vector<std::byte> image(values.size() * (is_float32 ? 4 : 2));
  if (is_float32) {
    std::memcpy(image.data(), values.data(), image.size());
  } else {
    reference::Tensor tensor;
    tensor.values.assign(values.begin(), values.end());
    const auto bits = bits_of(tensor, dtype);
    std::memcpy(image.data(), bits.data(), image.size());
  }
  return image;
}

std::vector<float> values_of(const DeviceBuffer& buffer, std::size_t first, const MergeProblem& p,
                             std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows * p.head_dim);
  if (p.float32_output) {
    const auto all = downloaded<float>(buffer);
    return {all.begin() + static_cast<std::ptrdiff_t>(first),
            all.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
  const Layout layout{{1, 1, rows, p.head_dim},
                      TensorStrides::bhsd(rows, 1, p.head_dim),
                      static_cast<std::int64_t>(first),
                      static_cast<std::int64_t>(first + count)};
  const reference::Tensor tensor = gather(downloaded<std::uint16_t>(buffer), layout, p.dtype);
  return {tensor.values.begin(), tensor.values.end()};
}

/// Merges, and compares with float64. `shift` elements before O and the partial outputs make rows misaligned. Returns O.
std::vector<float> expect_merged(Context& context, Case it, int shift = 0) {
  const MergeProblem& p = it.problem;
  const std::size_t in_bytes = p.float32_parts ? 4 : 2, out_bytes = p.float32_output ? 4 : 2;
  const auto offset = static_cast<std::size_t>(shift);
  const auto image = image_of(it.parts, p.dtype, p.float32_parts);
  DeviceBuffer parts((it.parts.size() + offset) * in_bytes), lse_parts(it.lse.size() * 4);
  DeviceBuffer o((static_cast<std::size_t>(it.rows() * p.head_dim) + offset) * out_bytes);
  DeviceBuffer lse(static_cast<std::size_t>(it.rows()) * 4);
  parts.upload(image.data(), image.size(), offset * in_bytes);
  lse_parts.upload(it.lse.data(), lse_parts.size());
  MergeArgs args;
  args.parts = static_cast<const std::byte*>(parts.data()) + offset * in_bytes;
  args.out = static_cast<std::byte*>(o.data()) + offset * out_bytes;
  args.parts_strides = args.out_strides = TensorStrides::bhsd(p.seqlen, p.heads, p.head_dim);
  args.part_stride = it.rows() * p.head_dim;
  args.lse_parts = static_cast<const float*>(lse_parts.data());
  args.lse_parts_strides = TensorStrides::bhsd(p.seqlen, p.heads, 1);
  args.lse_part_stride = it.rows();
  args.lse = static_cast<float*>(lse.data());
  context.merge(p, args);
  const std::vector<float> merged = values_of(o, offset, p, it.rows()), merged_lse = downloaded<float>(lse);
  const double unit = p.float32_output ? 1e-6 : p.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (std::int64_t row = 0; row < it.rows(); ++row) {
    double expected_lse = 0;
    const std::vector<double> expected = expected_row(it, row, expected_lse);
    const double got_lse = merged_lse[static_cast<std::size_t>(row)];
    CHECK((got_lse == expected_lse ||
           std::fabs(got_lse - expected_lse) <= 2e-6 * std::max(1.0, std::fabs(expected_lse))));
    for (std::int64_t col = 0; col < p.head_dim; ++col) {
      const double want = expected[static_cast<std::size_t>(col)];
      const double got = merged[static_cast<std::size_t>(row * p.head_dim + col)];
      CHECK(std::fabs(got - want) <= unit * std::fabs(want) + 2e-6);
    }
  }
  return merged;
}

}  // namespace

TEST_CASE("merge: attention over slices of the keys is attention over all of them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::vector<std::int64_t>& borders :
         std::vector<std::vector<std::int64_t>>{{0, 150}, {0, 64, 150}, {0, 1, 1, 70, 149, 150}}) {
      AttentionProblem problem{.dtype = dtype, .head_dim = 64};
      problem.batch = 2, problem.heads_q = 4, problem.heads_kv = 2;
      problem.seqlen_q = 33, problem.seqlen_k = borders.back();
      GuardedCall call(problem);
      call.upload();
      const auto parts = static_cast<std::int64_t>(borders.size()) - 1;
      const std::int64_t rows = problem.batch * problem.heads_q * problem.seqlen_q, elements = rows * 64;
      DeviceBuffer o(static_cast<std::size_t>(parts * elements) * 2),
          lse(static_cast<std::size_t>(parts * rows) * 4);
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = borders[static_cast<std::size_t>(part)];
        AttentionProblem slice = problem;
        slice.seqlen_k = borders[static_cast<std::size_t>(part + 1)] - first;
        AttentionArgs args = call.args;
        args.k = static_cast<const std::uint16_t*>(args.k) + first * args.k_strides.row;
        args.v = static_cast<const std::uint16_t*>(args.v) + first * args.v_strides.row;
        args.out = element(o, part * elements);
        args.out_strides = TensorStrides::bhsd(problem.seqlen_q, problem.heads_q, 64);
        args.lse = static_cast<float*>(lse.data()) + part * rows;
        context.attention(slice, args);
      }
      MergeArgs args;
      args.parts = o.data(), args.part_stride = elements;
      args.parts_strides = TensorStrides::bhsd(problem.seqlen_q, problem.heads_q, 64);
      args.lse_parts = static_cast<const float*>(lse.data()), args.lse_part_stride = rows;
      args.lse_parts_strides = TensorStrides::bhsd(problem.seqlen_q, problem.heads_q, 1);
      args.out = call.args.out, args.out_strides = call.args.out_strides, args.lse = call.args.lse;
      context.merge({.dtype = dtype, .head_dim = 64, .parts = parts, .batch = 2, .heads = 4, .seqlen = 33},
                    args);
      const reference::Verdict verdict = call.check();
      CHECK_MESSAGE(verdict.ok, verdict.message);
    }
  }
}

TEST_CASE("merge: every type of partial outputs and of O, any head dim, aligned and misaligned rows") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  int i = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool float32_parts : {false, true}) {
      for (const bool float32_output : {false, true}) {
        for (const int shift : {0, 1}) {
          INFO("dtype ", static_cast<int>(dtype), " parts ", float32_parts, " o ", float32_output, " shift ",
               shift);
          const int head_dim = i % 3 == 0 ? 40 : i % 3 == 1 ? 128 : 256;
          const std::int64_t parts = i % 2 == 0 ? 3 : 37;
          expect_merged(context,
                        random_case({.dtype = dtype,
                                     .float32_parts = float32_parts,
                                     .float32_output = float32_output,
                                     .head_dim = head_dim,
                                     .parts = parts,
                                     .batch = 2,
                                     .heads = 3,
                                     .seqlen = 5}),
                        shift);
          ++i;
        }
      }
    }
  }
}

TEST_CASE(
    "merge: partial outputs without a key do not matter, whatever they hold; a row without any key is 0") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  Case it = random_case({.float32_output = true, .head_dim = 24, .parts = 3, .heads = 2, .seqlen = 4});
  for (std::int64_t row = 0; row < it.rows(); ++row) {
    for (std::int64_t part = 0; part < 3; ++part) {
      const bool is_empty = row == 0 || (row + part) % 3 == 0;
      if (!is_empty) continue;
      it.lse_of(part, row) = part % 2 == 0 ? kInfinity : -kInfinity;
      std::fill_n(it.row_of(part, row), 24, kNaN);
    }
  }
  expect_merged(context, it);
}

TEST_CASE("merge: a single part keeps its bits, -0 too, and a row without a key is +0") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const bool float32 : {false, true}) {
    Case it = random_case({.float32_parts = float32, .float32_output = float32, .head_dim = 16, .seqlen = 5});
    std::fill_n(it.row_of(0, 2), 8, -0.0f);
    std::fill_n(it.row_of(0, 3), 16, -0.0f);
    it.lse_of(0, 3) = kInfinity;
    const std::vector<float> merged = expect_merged(context, it);
    std::fill_n(it.row_of(0, 3), 16, 0.0f);
    CHECK(std::memcmp(merged.data(), it.parts.data(), merged.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("merge: scores of any size") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  Case it =
      random_case({.float32_parts = true, .float32_output = true, .head_dim = 8, .parts = 2, .seqlen = 5});
  const float sizes[][2] = {{1e4f, 1e4f + 1}, {-3e4f, -3e4f}, {2e30f, -2e30f}, {-1e3f, 1e3f}, {0.0f, 80.0f}};
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t part = 0; part < 2; ++part) it.lse_of(part, row) = sizes[row][part];
  }
  expect_merged(context, it);
}

TEST_CASE("merge: a pack has the kernel for every call of its dtype and head dim") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  PrecompileOptions options;
  options.out = pack.path();
  options.merge = true;
  options.plans = {{RowAlignment::bytes16}, {RowAlignment::element}};
  Context(untuned()).precompile({{.head_dim = 16, .head_dim_v = 24}},
                                {std::string(device(device_under_test()).arch.name)}, options);

  Context context(serving(pack.path()));
  for (const bool float32 : {false, true}) {
    for (const int shift : {0, 1})
      expect_merged(context, random_case({.float32_parts = float32, .head_dim = 24, .parts = 3, .seqlen = 5}),
                    shift);
  }
  CHECK_THROWS_WITH_AS(expect_merged(context, random_case({.head_dim = 16, .parts = 2})),
                       doctest::Contains("fa2 precompile"), Unavailable);
}
