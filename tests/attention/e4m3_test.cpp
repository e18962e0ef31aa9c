// Keys and values of 8 bits, with factors per head, by every kernel that reads them.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../support/mma_configs.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr std::pair<std::int32_t, std::int32_t> kHeadDims[] = {
    {64, 64}, {80, 48}, {128, 128}, {16, 112}, {256, 32}};

/// Returns a problem of two sequences with 8-bit keys and values.
AttentionProblem bytes_problem(DType dtype, MaskKind mask, int dim, int seqlen_q, int seqlen_k) {
  AttentionProblem problem = grouped_problem(dtype, mask, dim, seqlen_q, seqlen_k);
  problem.kv_type = KvType::e4m3;
  return problem;
}

bool can_run(const GuardedCall& call, const std::string& config) {
  const PlannedProblem planned(call.problem, {});
  return !why_rejected(planned, parse_config(config), device(device_under_test()).arch);
}

/// Runs `call` with a config, and waits: the context's kernels must not be unloaded while they run.
void run(GuardedCall& call, const std::string& config) {
  ContextOptions options = untuned();
  options.config = parse_config(config);
  Context context(options);
  call.upload();
  context.attention(call.problem, call.args);
  (void)call.lse();
}

/// Returns a call with a sequence per code, of one key. Query i of each is 1 in column i.
GuardedCall call_of_codes(DType dtype) {
  GuardedCall call({.dtype = dtype,
                    .head_dim = 16,
                    .head_dim_v = 32,
                    .kv_type = KvType::e4m3,
                    .batch = 256,
                    .seqlen_q = 16,
                    .seqlen_k = 1});
  call.k_descale.clear(), call.v_descale.clear();
  call.args.softmax_scale = 1.0f;
  for (std::int64_t b = 0; b < 256; ++b)
    for (std::int64_t i = 0; i < 16; ++i)
      for (std::int64_t d = 0; d < 16; ++d) call.q.at(b, 0, i, d) = d == i ? 1.0f : 0.0f;
  return call;
}

/// Sets the key or value of sequence b to code b, in each column.
void set_codes(reference::Tensor& tensor) {
  for (std::int64_t b = 0; b < 256; ++b)
    for (std::int64_t d = 0; d < tensor.dim; ++d)
      tensor.at(b, 0, 0, d) = from_e4m3(static_cast<std::uint8_t>(b));
}

/// Returns the first code that one of its `count` values in `values` is not, to a relative `tolerance`; 256 if there is none.
std::size_t wrong_code(const std::vector<float>& values, std::size_t count, float tolerance) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float wanted = from_e4m3(static_cast<std::uint8_t>(i / count));
    const bool is_right = std::isnan(wanted) ? std::isnan(values[i])
                                             : std::abs(values[i] - wanted) <= tolerance * std::abs(wanted);
    if (!is_right) return i / count;
  }
  return 256;
}

}  // namespace

TEST_CASE("8-bit keys and values keep the numerics contract, with every variant and config") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const Combination& c :
       pairwise({kMmaConfigs.size(), std::size(kHeadDims), std::size(kMasks), 4, 2, 2, 2, 2})) {
    AttentionProblem problem = bytes_problem(c[7] == 1 ? DType::bf16 : DType::f16, kMasks[c[2]],
                                             kHeadDims[c[1]].first, i % 2 == 0 ? 5 : 70, 133);
    problem.head_dim_v = kHeadDims[c[1]].second;
    if (c[3] == 1 || c[3] == 2) problem.window_left = 20;
    if (c[3] == 2) problem.window_right = 7;
    if (c[3] == 3) problem.attention_chunk = 50;
    problem.softcap = c[4] == 1;
    problem.alibi = c[5] == 1;
    problem.sinks = c[6] == 1;
    GuardedCall call(problem, layouts_of(problem, i / 2 % 2 == 0 ? guarded_bshd : guarded_bhsd));
    INFO(kMmaConfigs[c[0]]);
    if (!can_run(call, kMmaConfigs[c[0]])) continue;
    run(call, kMmaConfigs[c[0]]);
    expect_contract(call);
    ++i;
  }
  CHECK(i > 20);
}

TEST_CASE("8-bit keys and values: packed sequences, each with factors of its own") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const Packing packing : kPackings) {
    const AttentionProblem problem =
        with_lengths(bytes_problem(i % 2 == 0 ? DType::bf16 : DType::f16, kMasks[i % 3], 64, 0, 0),
                     length_mixes()[i % length_mixes().size()], packing);
    GuardedCall call(problem, layouts_of(problem, guarded_bshd));
    set_lengths(call, length_mixes()[i % length_mixes().size()], packing);
    poison_unseen(call);
    call.upload();
    Context context(untuned());
    run_and_expect_contract(context, call);
    ++i;
  }
}

TEST_CASE("8-bit keys and values: every code, as a key and as a value") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    GuardedCall keys = call_of_codes(dtype), values = call_of_codes(dtype);
    set_codes(keys.k);
    set_codes(values.v);
    keys.v = constant_tensor({256, 1, 1, 32}, 1);
    values.k = constant_tensor({256, 1, 1, 16}, 0);
    for (const std::string& config : kMmaConfigs) {
      INFO(config, " ", to_string(dtype));
      run(keys, config);
      CHECK(wrong_code(keys.lse(), 16, 1e-6f) == 256);
      run(values, config);
      CHECK(wrong_code(values.out().values, 16 * 32, 0) == 256);
    }
  }
}

TEST_CASE("8-bit keys: NaN in any one column is NaN for every query") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    GuardedCall call = call_of_codes(dtype);
    for (float& value : call.k.values) value = 0;
    for (std::int64_t b = 0; b < 256; ++b)
      call.k.at(b, 0, 0, b % 16) = from_e4m3(b / 16 % 2 == 0 ? 0x7f : 0xff);
    for (const std::string& config : kMmaConfigs) {
      INFO(config, " ", to_string(dtype));
      run(call, config);
      CHECK(std::ranges::all_of(call.lse(), [](float lse) { return std::isnan(lse); }));
    }
  }
}

TEST_CASE("8-bit keys and values: with factors of 1 the bits of the same numbers in float16") {
  if (device_under_test() != kInterpreterDevice) return;  // a tensor core may add in another order
  const ScopedContext current(device_under_test());
  for (const std::string& config : kMmaConfigs) {
    INFO(config);
    const AttentionProblem problem = bytes_problem(DType::f16, MaskKind::causal_bottom_right, 64, 37, 133);
    GuardedCall bytes(problem);
    bytes.k_descale.clear(), bytes.v_descale.clear();
    AttentionProblem same = problem;
    same.kv_type = KvType::same;
    GuardedCall halves(same);
    halves.q = bytes.q, halves.k = bytes.k, halves.v = bytes.v;
    run(bytes, config);
    run(halves, config);
    CHECK(bytes.out().values == halves.out().values);
    CHECK(bytes.lse() == halves.lse());
  }
}

TEST_CASE("8-bit keys and values: one factor for all, by strides of 0") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(bytes_problem(DType::bf16, MaskKind::none, 64, 3, 200));
  call.k_descale = {0.5f}, call.v_descale = {3.0f};
  call.args.k_descale_strides = call.args.v_descale_strides = {};
  call.upload();
  Context context(untuned());
  run_and_expect_contract(context, call);
}

TEST_CASE("8-bit keys: bfloat16 queries of any magnitude, with elements 2^-30 of the largest") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr int kLeast = -90, kDistance = 8, kZero = 25, kInfinite = 26, kNan = 27, kTiny = 28;
  GuardedCall call(
      {.dtype = DType::bf16, .head_dim = 32, .kv_type = KvType::e4m3, .seqlen_q = kTiny + 1, .seqlen_k = 1});
  call.k_descale.clear(), call.v_descale.clear();
  call.args.softmax_scale = 1.0f;
  std::ranges::fill(call.q.values, 0.0f);
  std::ranges::fill(call.k.values, 0.0f);
  // The two largest elements, in any pair of columns, cancel each other, and leave the small one in another product of 16 columns.
  for (int col = 0; col < 32; ++col) call.k.at(0, 0, 0, col) = col / 8 == 1 ? -1.0f : 1.0f;
  const auto magnitude = [&](int row) { return std::ldexp(1.5f, kLeast + kDistance * (7 * row % kZero)); };
  for (int row = 0; row < kZero; ++row) {
    call.q.at(0, 0, row, row % 8) = call.q.at(0, 0, row, row % 8 + 8) = magnitude(row);
    call.q.at(0, 0, row, row % 16 + 16) = magnitude(row) * 0x1p-30f;
  }
  call.q.at(0, 0, kInfinite, 3) = std::numeric_limits<float>::infinity();
  call.q.at(0, 0, kNan, 20) = std::numeric_limits<float>::quiet_NaN();
  call.q.at(0, 0, kTiny, 20) = 0x1.8p-120f;  // no float is large enough to bring it to the end of float16
  for (const std::string& config : kMmaConfigs) {
    INFO(config);
    run(call, config);
    const std::vector<float> lse = call.lse();
    for (int row = 0; row < kZero; ++row) {
      const float wanted = magnitude(row) * 0x1p-30f;
      CHECK_MESSAGE(std::abs(lse[row] / wanted - 1) < 1e-6f, "row ", row, ": ", lse[row], ", must be ",
                    wanted);
    }
    CHECK(lse[kZero] == 0.0f);
    CHECK_FALSE(std::isfinite(lse[kInfinite]));
    CHECK(std::isnan(lse[kNan]));
    CHECK(std::abs(lse[kTiny] / 0x1.8p-120f - 1) < 1e-6f);
  }
}
