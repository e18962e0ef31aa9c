// Kernels are as exact as a fused kernel can be, even if one or a few keys dominate a row. Errors are
// compared with those of the fused baseline.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <runtime/device.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "../support/error_ratios.h"
#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// The heuristic's choice, then each kernel; forward_sm90 with an exact and with a speculative maximum.
const std::vector<std::string> kConfigs = {
    "",
    "tile_m=64,tile_n=32,stages=2",
    "kernel=forward_split,tile_m=16,tile_n=32,warps=4,stages=2",
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1",
    "kernel=forward_sm90,tile_m=128,tile_n=80,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1",
    "kernel=forward_sm90,tile_m=64,tile_n=48,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,schedule=2,"
    "speculative_max="
    "1"};

struct Peak {
  float q_scale;    ///< scale of N(0, 1) queries
  float first_key;  ///< score of key 0 in every row; kernels visit key 0 last; 0: random
};

GuardedCall peaked(DType dtype, MaskKind mask, int dim, const Peak& peak) {
  GuardedCall call(
      {.dtype = dtype, .head_dim = dim, .mask = mask, .heads_q = 2, .seqlen_q = 128, .seqlen_k = 512});
  for (float& x : call.q.values) x = round_to(x * peak.q_scale, dtype);
  if (peak.first_key == 0) return call;
  for (std::int64_t h = 0; h < call.problem.heads_q; ++h) {
    for (std::int64_t i = 0; i < call.problem.seqlen_q; ++i) call.q.at(0, h, i, 0) = 1;
    for (std::int64_t j = 0; j < call.problem.seqlen_k; ++j) call.k.at(0, h, j, 0) = 0;
    for (int c = 0; c < dim; ++c) call.k.at(0, h, 0, c) = 0;
    const float score = peak.first_key * std::sqrt(static_cast<float>(dim));
    call.k.at(0, h, 0, 0) = round_to(score, dtype);
  }
  return call;
}

/// Returns nothing if the device cannot run the config's kernel.
std::optional<Context> context_for(const std::string& config, const AttentionProblem& problem) {
  ContextOptions options = untuned();
  if (!config.empty()) {
    options.config = parse_config(config);
    options.config->skip_masked =
        options.config->kernel == KernelId::forward_sm90 && problem.mask != MaskKind::none;
    if (why_rejected({problem, {}}, *options.config, device(device_under_test()).arch)) return std::nullopt;
  }
  return std::optional<Context>(std::in_place, options);
}

}  // namespace

TEST_CASE("peaked rows are as exact as a fused kernel can make them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const bool halved = device_under_test() == kInterpreterDevice;
  for (const Peak& peak : {Peak{1, 0}, {4, 0}, {12, 0}, {60, 0}, {1, 6.5f}}) {
    std::vector<ErrorRatios> ratios(kConfigs.size());
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
        if (halved && (dtype == DType::f16) != (mask == MaskKind::none)) continue;
        GuardedCall call = peaked(dtype, mask, dtype == DType::f16 ? 64 : 128, peak);
        const double scale = 1 / std::sqrt(static_cast<double>(call.problem.head_dim));
        const reference::Tensor exact =
            reference::attention_f64(call.problem, call.q, call.k, call.v, scale).out;
        const reference::Errors baseline = reference::errors_of(
            reference::attention_fused_baseline(call.problem, call.q, call.k, call.v, scale), exact);
        for (std::size_t i = 0; i < kConfigs.size(); ++i) {
          std::optional<Context> context = context_for(kConfigs[i], call.problem);
          if (!context) continue;
          call.upload();
          context->attention(call.problem, call.args);
          ratios[i].add(reference::errors_of(call.out(), exact), baseline);
        }
      }
    }
    for (std::size_t i = 0; i < kConfigs.size(); ++i) {
      if (ratios[i].count() == 0) continue;
      INFO("errors of q x ", peak.q_scale, ", key 0 at ", peak.first_key, ", ",
           kConfigs[i].empty() ? "heuristic" : kConfigs[i]);
      ratios[i].expect_contract();
    }
  }
}
