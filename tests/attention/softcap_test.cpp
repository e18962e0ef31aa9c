// Softcaps and scales of any size: the kernels' softcap arithmetic, and attention with it.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/kernel_kind.h>
#include <planning/attention_params.h>
#include <runtime/device.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

struct Numbers {
  float cap;
  float scale;
};

/// A kernel's results for one score before scaling.
struct Capped {
  float alone;       ///< capped score in a tile of equal scores
  float derivative;  ///< derivative of the cap there
  float beside;      ///< capped score in a tile with another score of kOutlier
  float guessed;     ///< speculative exponent, base 2, computed from the score itself
  float is_right;    ///< 1 if the speculative exponent is valid, else 0
};

constexpr float kOutlier = -1e8f;

struct CappingParams {
  const void* calls = nullptr;
  const void* scores = nullptr;
  void* out = nullptr;
  int call_count = 0;
  int score_count = 0;
  float outlier = kOutlier;
};

/// Returns a kernel with one warp for each pair of a call and a score.
SmallKernel capping_kernel() {
  return {.body = R"(
  for (int i = warp_index(); i < p.call_count * p.score_count; i += 4) {
    const float score = p.scores[i % p.score_count];
    const ScoreMod<Params::Config> mod{p.calls[i / p.score_count], {}, {}, {p.calls[i / p.score_count], {}, {}, 0.0f}, {},
                                          {p.calls[i / p.score_count]}};
    AccumulatorTile<1, 1> alone, gradients, beside;
    for (int n = 0; n < 4; ++n) {
      alone.value[0][0][n] = beside.value[0][0][n] = score;
      gradients.value[0][0][n] = 1.0f;
    }
    if (lane_index() == 0) beside.value[0][0][0] = p.outlier;
    mod.apply_with_gradients<ScoreTile::queries_by_keys>(alone, gradients, 0, 0);
    mod.apply(beside, 0, 0);
    Exponents<Params::Config> exponents{mod, Side::before, 0, 0};
    const float guessed = exponents(0, 0, 0.0f)(score, 0);
    if (lane_index() != 1) continue;
    float* const out = p.out + 5 * i;
    out[0] = alone.value[0][0][0];
    out[1] = gradients.value[0][0][0];
    out[2] = beside.value[0][0][0];
    out[3] = guessed;
    out[4] = exponents.are_right() ? 1.0f : 0.0f;
  })",
          .params = R"(
  struct Config { static constexpr bool softcap = true, alibi = false, max_logits = false, score_text = false; static constexpr int kv_type = 0; };
  const AttentionParams* calls; const float* scores; float* out; int call_count; int score_count; float outlier;)",
          .threads = 128,
          .headers = {"attention/common/score_mod.cuh"}};
}

AttentionParams params_of(const Numbers& numbers) {
  AttentionProblem problem;
  problem.softcap = true;
  AttentionArgs args;
  args.softcap = numbers.cap;
  args.softmax_scale = numbers.scale;
  AttentionParams params{};
  add_call(params, problem, args);
  return params;
}

/// Returns the results for all scores of the first call, then of the second, and so on.
std::vector<Capped> capped(const std::vector<AttentionParams>& calls, const std::vector<float>& scores) {
  const ScopedContext current(device_under_test());
  const auto kernel = build(capping_kernel());
  std::vector<Capped> out(calls.size() * scores.size());
  DeviceBuffer calls_buffer(calls.size() * sizeof calls[0]), scores_buffer(scores.size() * sizeof scores[0]),
      out_buffer(out.size() * sizeof out[0]);
  calls_buffer.upload(calls.data(), calls_buffer.size());
  scores_buffer.upload(scores.data(), scores_buffer.size());
  out_buffer.fill(0xff);
  launch(*kernel,
         CappingParams{calls_buffer.data(), scores_buffer.data(), out_buffer.data(),
                       static_cast<int>(calls.size()), static_cast<int>(scores.size())},
         Buffers().add("calls", calls_buffer, Access::read).input(scores_buffer).output(out_buffer));
  out_buffer.download(out.data(), out_buffer.size());
  return out;
}

/// Returns numbers from `first` to `last` in steps of a factor of 2.3.
std::vector<float> grid(float first, float last) {
  std::vector<float> values;
  for (double x = double{first}; x <= double{last} * 1.001; x *= 2.3) values.push_back(static_cast<float>(x));
  return values;
}

std::vector<Numbers> all_numbers() {
  std::vector<float> caps = grid(1e-3f, 1e30f);
  caps.insert(caps.end(), {std::numeric_limits<float>::denorm_min(), FLT_MIN, 511.0f, 513.0f, FLT_MAX});
  std::vector<Numbers> list;
  for (const float scale : {0.0f, 1e-45f, 1e-30f, 1e-8f, 1e-5f, 0.125f, 1.0f, -0.5f, 1e4f, -1e8f}) {
    for (const float cap : caps) list.push_back({cap, scale});
  }
  return list;
}

std::vector<float> all_scores() {
  std::vector<float> scores = {0.0f};
  for (const float s : grid(1e-14f, 1e8f)) scores.insert(scores.end(), {s, -s});
  return scores;
}

/// Returns the error that an exponent, base 2, may have in a tile with largest score `largest`. Within the
/// series: 5e-7 by the fit, 3e-7 by five roundings, and 2e-7 if the series is that of a smaller cap. Beyond
/// the series: tanh has an error of 6e-7 by the documented errors of ex2.approx and rcp.approx, and is at
/// least 0.24, hence 2.5e-6. With a cap up to 512, the 6e-7 show in small scores too. Exponents below 1e-9
/// may be flushed to 0.
double allowed_error(const AttentionParams& call, const Numbers& numbers, double exact, float largest) {
  const bool in_series = largest <= call.softcap.series_end;
  const double absolute =
      in_series || numbers.cap > 512 ? 0 : 6e-7 * double{numbers.cap} * std::numbers::log2e;
  return (in_series ? 1e-6 : 2.5e-6) * std::fabs(exact) + absolute + 1e-9;
}

void expect_capped(const AttentionParams& call, const Numbers& numbers, float score, const Capped& y) {
  const double tanh = std::tanh(double{score} * double{numbers.scale} / double{numbers.cap}),
               exact = double{numbers.cap} * tanh * std::numbers::log2e;
  INFO("softcap ", numbers.cap, ", scale ", numbers.scale, ", score ", score, ", exponent ", exact);
  const auto is_right = [&](double actual, float largest) {
    return std::fabs(actual - exact) <= allowed_error(call, numbers, exact, largest);
  };
  const double unit = double{call.scale_log2};
  if (!is_right(double{y.alone} * unit, std::fabs(score))) FAIL_CHECK("alone: " << double{y.alone} * unit);
  if (!is_right(double{y.beside} * unit, -kOutlier)) FAIL_CHECK("beside: " << double{y.beside} * unit);
  if (!(std::fabs(double{y.derivative} - (1 - tanh * tanh)) <= 2e-6))
    FAIL_CHECK("derivative: " << y.derivative << " instead of " << 1 - tanh * tanh);
  // A term has 24 bits, so a warp knows the end of the series only to about 30%.
  const bool must_be_right = std::fabs(score) <= 0.7f * call.softcap.series_end;
  if (must_be_right && y.is_right == 0) FAIL_CHECK("a guess is refused");
  if (y.is_right != 0 && !is_right(double{y.guessed}, 0)) FAIL_CHECK("guessed: " << y.guessed);
}

struct Extreme {
  float cap;
  std::optional<float> scale;
  float q_scale;   ///< scale of N(0, 1) queries
  float outliers;  ///< scale of every eighth query
};

const std::vector<Extreme> kExtremes = {{1e10f, {}, 4, 4},
                                        {50, 0.0f, 1, 1},
                                        {50, 1e-8f, 1, 1},
                                        {1e-3f, {}, 1, 1},
                                        {1e30f, {}, 12, 12},
                                        {FLT_MAX, {}, 4, 4},
                                        {std::numeric_limits<float>::denorm_min(), {}, 1, 1},
                                        {1e5f, {}, 1, 4096},
                                        {1e10f, 0.125f, 1, 4096}};

/// Returns problems with the softcap alone, and with other variants.
std::vector<AttentionProblem> capped_problems() {
  AttentionProblem alone = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 100, 200);
  alone.softcap = true;
  AttentionProblem beside = alone;
  beside.alibi = beside.sinks = true;
  return {alone, beside};
}

void set(GuardedCall& call, const Extreme& extreme) {
  call.randomize(7);
  for (std::int64_t b = 0; b < call.q.batch; ++b) {
    for (std::int64_t h = 0; h < call.q.heads; ++h) {
      for (std::int64_t i = 0; i < call.q.rows; ++i) {
        for (std::int64_t d = 0; d < call.q.dim; ++d) {
          float& x = call.q.at(b, h, i, d);
          x = round_to(x * (i % 8 == 0 ? extreme.outliers : extreme.q_scale), call.problem.dtype);
        }
      }
    }
  }
  call.args.softcap = extreme.cap;
  call.args.softmax_scale = extreme.scale;
  call.upload();
}

std::string text(const Extreme& extreme) {
  return "softcap " + std::to_string(extreme.cap) +
         (extreme.scale ? ", scale " + std::to_string(*extreme.scale) : "") + ", queries times " +
         std::to_string(extreme.q_scale) + " and " + std::to_string(extreme.outliers);
}

}  // namespace

TEST_CASE("softcap: value, derivative and speculative exponent of any score, cap and scale") {
  if (cannot_run()) return;
  const std::vector<Numbers> numbers = all_numbers();
  const std::vector<float> scores = all_scores();
  std::vector<AttentionParams> calls;
  for (const Numbers& n : numbers) calls.push_back(params_of(n));
  const std::vector<Capped> all = capped(calls, scores);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t call = i / scores.size();
    expect_capped(calls[call], numbers[call], scores[i % scores.size()], all[i]);
  }
}

TEST_CASE("softcap: usual caps and scales use a series, up to a quarter of the cap") {
  for (const float scale : {0.0625f, -0.0883883f, 0.125f, 1.0f}) {
    for (const float cap : {5.0f, 30.0f, 50.0f, 100.0f, 500.0f}) {
      const SoftcapParams params = params_of({cap, scale}).softcap;
      CHECK(params.series_end == doctest::Approx(0.25f * cap / std::fabs(scale)).epsilon(1e-6));
      CHECK(std::isfinite(params.last_term));
      CHECK_FALSE(params.is_large);
    }
  }
}

// Also in units of the fused baseline's errors, because outliers loosen the contract for small scores.
TEST_CASE("softcap: the numerics contract holds for caps and scales of any size") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {
      "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2",
      "kernel=forward_split,tile_m=32,tile_n=16,warps=3,stages=3",
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
      "speculative_max=1,"
      "skip_masked=1",
      "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1,overlap=1"};
  for (const AttentionProblem& problem : capped_problems()) {
    GuardedCall call(problem);
    for (const Extreme& extreme : kExtremes) {
      set(call, extreme);
      const reference::Tensor exact =
          reference::attention_f64(problem, call.q, call.k, call.v, call.rule()).out;
      const reference::Errors baseline = reference::errors_of(
          reference::attention_fused_baseline(problem, call.q, call.k, call.v, call.rule()), exact);
      for (const std::string& config : configs) {
        const KernelConfig parsed = parse_config(config);
        if (parsed.kernel == KernelId::forward_sm90 && cannot_run_sm_90a()) continue;
        INFO(config, ", ", text(extreme));
        Context context(pinning(parsed));
        call.upload();
        run_and_expect_contract(context, call);
        const reference::Errors errors = reference::errors_of(call.out(), exact);
        CHECK(errors.rms <= 1.1 * baseline.rms);
        CHECK(errors.largest <= 2 * baseline.largest);
      }
    }
  }
}

// Outliers have a dO of 0, so that they do not loosen any limit.
TEST_CASE("softcap: the gradients' contract holds for caps and scales of any size") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context best(untuned()), on_mma(pinning(default_config(KernelId::backward_sm80)));
  for (const AttentionProblem& problem : capped_problems()) {
    GuardedBackward call(problem);
    for (const Extreme& extreme : kExtremes) {
      set(call.forward, extreme);
      call.d_out = random_tensor({call.d_out.batch, call.d_out.heads, call.d_out.rows, call.d_out.dim},
                                 problem.dtype, 3);
      if (extreme.outliers != extreme.q_scale)
        for (std::int64_t i = 0; i < call.d_out.rows; i += 8)
          for_rows(call.d_out, i, i + 1, [](float& x) { x = 0; });
      for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
        call.determinism = determinism;
        call.upload();
        INFO(text(extreme));
        run_and_expect_gradients(best, call);
      }
      call.determinism = Determinism::fastest;
      call.upload();
      INFO("on mma.sync, ", text(extreme));
      run_and_expect_gradients(on_mma, call);
    }
  }
}
