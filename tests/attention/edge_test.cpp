// Extreme scales and inputs, rows and problems without keys or queries, and repeatability.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr DType kDTypes[] = {DType::f16, DType::bf16};
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

/// Returns problems of every dtype and mask, with batch 2 and 4 query heads over 2 key/value heads.
std::vector<AttentionProblem> variants(int dim, int seqlen_q, int seqlen_k) {
  std::vector<AttentionProblem> list;
  for (const DType dtype : kDTypes) {
    for (const MaskKind mask : kMasks) list.push_back(grouped_problem(dtype, mask, dim, seqlen_q, seqlen_k));
  }
  return list;
}

struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};
};

void multiply(reference::Tensor& tensor, float factor) {
  for (float& x : tensor.values) x *= factor;
}

}  // namespace

TEST_CASE("scales that are zero, negative or tiny") {
  if (cannot_run()) return;
  Gpu gpu;
  precompile(gpu.context, variants(64, 131, 197));
  for (const AttentionProblem& problem : variants(64, 131, 197)) {
    GuardedCall call(problem);
    for (const float scale : {0.0f, -0.0f, -0.125f, -0.5f, 1e-30f, -1e-30f, 1e-40f, -1e-40f}) {
      call.args.softmax_scale = scale;
      call.upload();
      INFO("scale ", scale);
      run_and_expect_contract(gpu.context, call);
    }
  }
}

// Without a mask every row sees many keys. Then LSEs are large too, and their relative error is meaningful.
TEST_CASE("scores up to 10^4 in magnitude") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    for (const int dim : {64, 256}) {
      GuardedCall call(grouped_problem(dtype, MaskKind::none, dim, 131, 197));
      // q k has a standard deviation of sqrt(dim); its maximum is some 4.5 times that.
      const float huge = 1e4f / (4.5f * std::sqrt(static_cast<float>(dim)));
      for (const float scale : {huge, -huge}) {
        call.args.softmax_scale = scale;
        call.upload();
        INFO("scale ", scale);
        run_and_expect_contract(gpu.context, call);
      }
      // The same scores from huge inputs: multiplying by a power of two is exact.
      multiply(call.q, 16);
      multiply(call.k, 8);
      call.args.softmax_scale = huge / 128;
      call.upload();
      run_and_expect_contract(gpu.context, call);
    }
  }
}

TEST_CASE("scores of any finite magnitude") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const AttentionProblem& problem : variants(64, 70, 150)) {
    GuardedCall call(problem);
    for (const float scale : {1e10f, -1e10f, 1e30f}) {
      call.args.softmax_scale = scale;
      call.upload();
      INFO("scale ", scale);
      run_and_expect_contract(gpu.context, call);
    }
    call.args.softmax_scale = std::nullopt;
    for (const float magnitude : {300.0f, 9742.0f, 60000.0f, 1e17f}) {
      if (problem.dtype == DType::f16 && magnitude > 65504.0f) continue;
      const float value = round_to(magnitude, problem.dtype);
      call.q.values.assign(call.q.values.size(), value);
      for (const float sign : {1.0f, -1.0f}) {
        call.k.values.assign(call.k.values.size(), sign * value);
        call.upload();
        INFO("q = ", value, ", k = ", sign * value);
        run_and_expect_contract(gpu.context, call);
      }
    }
  }
}

// Key 0 has the large scores, because every kernel visits it last.
TEST_CASE("one key with large scores in every second row") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    GuardedCall call(grouped_problem(dtype, MaskKind::none, 64, 70, 150));
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 4; ++h) {
        for (std::int64_t i = 0; i < 70; ++i) call.q.at(b, h, i, 0) = i % 2 == 0 ? 0.0f : 4096.0f;
      }
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t j = 0; j < 150; ++j) call.k.at(b, h, j, 0) = j == 0 ? 512.0f : 0.0f;
      }
    }
    call.upload();
    run_and_expect_contract(gpu.context, call);
  }
}

TEST_CASE("values near the largest bfloat16 do not overflow") {
  if (cannot_run()) return;
  Gpu gpu;
  GuardedCall call(grouped_problem(DType::bf16, MaskKind::none, 64, 70, 400));
  for (const float value : {1e36f, 3.3e38f}) {
    for (const float q_scale : {0.0f, 1.0f, 8.0f}) {
      call.randomize(11);
      multiply(call.q, q_scale);
      call.v.values.assign(call.v.values.size(), round_to(value, DType::bf16));
      call.upload();
      INFO("v = ", value, ", q x ", q_scale);
      run_and_expect_contract(gpu.context, call);
      for (const float x : call.out().values) CHECK(std::isfinite(x));
    }
  }
}

TEST_CASE("constant inputs give that constant exactly") {
  if (cannot_run()) return;
  Gpu gpu;
  precompile(gpu.context, variants(64, 70, 150));
  for (const AttentionProblem& problem : variants(64, 70, 150)) {
    GuardedCall call(problem);
    for (const float value : {0.0f, 1.0f, -2.0f}) {
      for (reference::Tensor* tensor : {&call.q, &call.k, &call.v})
        tensor->values.assign(tensor->values.size(), value);
      call.upload();
      INFO("value ", value);
      run_and_expect_contract(gpu.context, call);
      const reference::Tensor o = call.out();
      CHECK(o.values == std::vector<float>(o.values.size(), value));
    }
  }
}

TEST_CASE("with one key the output is its value") {
  if (cannot_run()) return;
  Gpu gpu;
  precompile(gpu.context, variants(128, 33, 1));
  for (const AttentionProblem& problem : variants(128, 33, 1)) {
    const GuardedCall call(problem);
    run_and_expect_contract(gpu.context, call);
    const reference::Tensor o = call.out();
    bool same = true;
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t d = 0; d < 128; ++d) same &= o.at(1, h, 32, d) == call.v.at(1, h / 2, 0, d);
    }
    CHECK(same);  // row 32 sees the key under every mask
  }
}

TEST_CASE("without a key O is 0 and LSE the infinity asked for") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const bool has_keys : {false, true}) {
    std::vector<AttentionProblem> list = variants(64, 200, has_keys ? 75 : 0);
    precompile(gpu.context, list);
    for (const AttentionProblem& problem : list) {
      GuardedCall call(problem);
      if (!has_keys) call.args.k = call.args.v = nullptr;
      for (const auto& [convention, infinity] : {std::pair{EmptyRowLse::positive_infinity, kInfinity},
                                                 std::pair{EmptyRowLse::negative_infinity, -kInfinity}}) {
        call.args.empty_row_lse = convention;
        call.upload();
        run_and_expect_contract(gpu.context, call);
        // Row 0 sees no key if there are none, or if it lies above the bottom-right diagonal.
        if (has_keys && problem.mask != MaskKind::causal_bottom_right) continue;
        CHECK(call.out().at(1, 3, 0, 5) == 0.0f);
        CHECK(call.lse().front() == infinity);
      }
    }
  }
}

TEST_CASE("keys that no query sees do not matter, whatever they hold") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    GuardedCall call(grouped_problem(dtype, MaskKind::causal_top_left, 64, 70, 300));
    for (const float poison : {kNaN, kInfinity, -kInfinity}) {
      for (std::int64_t j = 70; j < 300; ++j) {
        for (std::int64_t h = 0; h < 2; ++h) call.k.at(0, h, j, 3) = call.v.at(0, h, j, 7) = poison;
      }
      call.upload();
      INFO("poison ", poison);
      run_and_expect_contract(gpu.context, call);
    }
  }
}

TEST_CASE("NaN and infinities in a query affect only its own row") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const DType dtype : kDTypes) {
    for (const float poison : {kNaN, kInfinity, -kInfinity}) {
      GuardedCall call(grouped_problem(dtype, MaskKind::none, 64, 131, 197));
      call.q.at(1, 2, 65, 11) = poison;
      call.upload();
      INFO("poison ", poison);
      run_and_expect_contract(gpu.context, call);  // compares only rows with a finite reference
      const reference::Tensor o = call.out();
      for (std::int64_t d = 0; d < 64; ++d) CHECK(std::isnan(o.at(1, 2, 65, d)));
      CHECK(std::isfinite(o.at(1, 2, 64, 0)));
      CHECK(std::isfinite(o.at(1, 2, 66, 0)));
      CHECK(std::isnan(call.lse()[static_cast<std::size_t>((1 * 4 + 2) * 131 + 65)]));
    }
  }
}

TEST_CASE("LSE is optional, and runs repeat bit for bit") {
  if (cannot_run()) return;
  Gpu gpu;
  const bool slow = device_under_test() == kInterpreterDevice;
  const auto problems = slow ? variants(128, 131, 197) : variants(128, 517, 700);
  precompile(gpu.context, problems);
  for (const AttentionProblem& problem : problems) {
    GuardedCall call(problem);
    run_and_expect_contract(gpu.context, call);
    const auto o = bits_of(call.out(), problem.dtype);
    const std::vector<float> lse = call.lse();
    for (int again = 0; again < 2; ++again) {
      call.upload();
      gpu.context.attention(problem, call.args);
      CHECK((bits_of(call.out(), problem.dtype) == o));
      CHECK((call.lse() == lse));
    }
    call.args.lse = nullptr;
    call.upload();
    run_and_expect_contract(gpu.context, call);
    CHECK((bits_of(call.out(), problem.dtype) == o));
  }
}

TEST_CASE("without queries nothing is read, written or compiled") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory cache;
  Context context(untuned(cache.path()));
  const GuardedCall bystander(grouped_problem(DType::f16, MaskKind::none, 64, 64, 64));
  AttentionProblem no_batch = bystander.problem, no_queries = bystander.problem;
  no_batch.batch = 0;
  no_queries.seqlen_q = 0;
  for (const AttentionProblem& problem : {no_batch, no_queries}) {
    context.attention(problem, bystander.args);
    CHECK(bystander.is_untouched());
    CHECK_NOTHROW(context.attention(problem, AttentionArgs{}));
  }
  CHECK(std::filesystem::is_empty(cache.path()));
}
