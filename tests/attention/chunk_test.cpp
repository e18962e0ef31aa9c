// Chunked local attention: chunks of any length, with every mask, against the reference; every forward kernel and every kernel of
// gradients.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"
#include "../support/pairwise.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
/// One key, an odd number, fewer keys than a tile has, whole tiles, and more keys than sequences have.
constexpr std::int64_t kChunks[] = {1, 37, 64, 128, std::int64_t{1} << 40};
constexpr std::pair<int, int> kLengths[] = {{131, 197}, {200, 61}, {97, 97}, {1, 150}, {70, 300}};

struct Window {
  std::optional<std::int64_t> left = {}, right = {};
};
constexpr Window kWindows[] = {{}, {.left = 20}, {.right = 7}, {.left = 45, .right = 9}};

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
    "speculative_max=1,skip_masked=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,"
    "speculative_max=1,skip_masked=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1"};

AttentionProblem problem_of(MaskKind mask, std::int64_t chunk, const Window& window,
                            const std::pair<int, int>& lengths, int dim = 64) {
  AttentionProblem p = grouped_problem(DType::f16, mask, dim, lengths.first, lengths.second);
  p.attention_chunk = chunk;
  p.window_left = window.left, p.window_right = window.right;
  return p;
}

/// CHECKs pairs of kernels, masks, chunks, windows and lengths.
void expect_contracts(const std::vector<std::string>& configs) {
  const ScopedContext current(device_under_test());
  for (const Combination& c : pairwise({configs.size(), std::size(kMasks), std::size(kChunks),
                                        std::size(kWindows), std::size(kLengths)})) {
    GuardedCall call(problem_of(kMasks[c[1]], kChunks[c[2]], kWindows[c[3]], kLengths[c[4]]));
    call.upload();
    INFO(configs[c[0]]);
    Context context(pinning(parse_config(configs[c[0]])));
    run_and_expect_contract(context, call);
  }
}

/// CHECKs pairs of kernels, masks, chunks, windows and lengths.
void expect_gradients_with(const std::vector<std::string>& configs) {
  const ScopedContext current(device_under_test());
  for (const Combination& c : pairwise({configs.size(), std::size(kMasks), std::size(kChunks),
                                        std::size(kWindows), std::size(kLengths)})) {
    const KernelConfig config = parse_config(configs[c[0]]);
    GuardedBackward call(problem_of(kMasks[c[1]], kChunks[c[2]], kWindows[c[3]], kLengths[c[4]]));
    INFO(configs[c[0]], ", ", to_string(call.forward.problem));
    Context context(pinning(config));
    run_and_expect_gradients(context, call);
    const BackwardPlan plan = context.backward_plan(call.forward.problem, device_under_test(), {}, {});
    CHECK(plan.explain().kernels.at(1).config == config);
  }
}

/// Sets the keys and values [begin, end) to NaN.
void poison(GuardedCall& call, std::int64_t begin, std::int64_t end) {
  for (reference::Tensor* tensor : {&call.k, &call.v})
    for_rows(*tensor, begin, end, [](float& x) { x = std::numeric_limits<float>::quiet_NaN(); });
}

}  // namespace

TEST_CASE("attention chunks keep the numerics contract on mma.sync") {
  if (cannot_run()) return;
  expect_contracts(kMmaConfigs);
}

TEST_CASE("attention chunks keep the numerics contract with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  expect_contracts(kConfigs90);
}

TEST_CASE("attention chunks: gradients of the fused backward on mma.sync") {
  if (cannot_run()) return;
  expect_gradients_with({"kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0",
                         "kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,stages=2,split_gradients=1"});
}

TEST_CASE("attention chunks: gradients of the fused backward on wgmma") {
  if (cannot_run_sm_90a()) return;
  expect_gradients_with({"kernel=backward_sm90,tile_m=64,tile_n=128,warps=8,stages=2",
                         "kernel=backward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,pingpong=1"});
}

TEST_CASE("attention chunks: gradients of the separate kernels") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const Combination& c :
       pairwise({std::size(kMasks), std::size(kChunks), std::size(kWindows), std::size(kLengths)})) {
    const AttentionProblem problem =
        problem_of(kMasks[c[0]], kChunks[c[1]], kWindows[c[2]], kLengths[c[3]], 24);
    GuardedBackward call(problem, backward_layouts_of(problem, misaligned));
    call.determinism = Determinism::bitwise;
    INFO(to_string(problem));
    run_and_expect_gradients(context, call);
    const BackwardPlan plan =
        context.backward_plan(problem, device_under_test(), {.determinism = Determinism::bitwise},
                              {.row_alignment = RowAlignment::element});
    CHECK(pass_of(plan.explain().kernels.at(1).config) == KernelPass::dq);
    CHECK(pass_of(plan.explain().kernels.at(2).config) == KernelPass::dk_dv);
  }
}

// Keys before the first query's chunk may be freed memory of a cache.
TEST_CASE("attention chunks: NaN outside of every query's chunk reaches no output") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  struct Case {
    MaskKind mask;
    std::int64_t chunk;
    std::int64_t begin, end;  ///< of 200 keys, those that some of the 40 queries, the last ones, sees
  };
  std::vector<std::string> configs = kConfigs90;
  configs.insert(configs.end(), {kMmaConfigs[1], kMmaConfigs[3]});
  for (const Case& c : {Case{MaskKind::causal_bottom_right, 50, 150, 200}, Case{MaskKind::none, 70, 140, 200},
                        Case{MaskKind::causal_top_left, 16, 0, 40}, Case{MaskKind::none, 159, 159, 200}}) {
    GuardedCall call(problem_of(c.mask, c.chunk, {}, {40, 200}));
    poison(call, 0, c.begin);
    poison(call, c.end, 200);
    for (const std::string& config : configs) {
      if (config.find("sm90") != config.npos && cannot_run_sm_90a()) continue;
      INFO(config, ", ", to_string(call.problem));
      call.upload();
      Context context(pinning(parse_config(config)));
      run_and_expect_contract(context, call);
    }
  }
}

TEST_CASE("attention chunks: a chunk longer than the keys, but not than the queries") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const MaskKind mask : kMasks) {
    GuardedCall call(problem_of(mask, 100, {}, {200, 61}));
    call.upload();
    Context context(pinning(parse_config(kMmaConfigs[1])));
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("attention chunks: a chunk of all keys has the bits of attention without chunks") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 131, 197));
  call.upload();
  Context context(pinning(parse_config(kMmaConfigs[1])));
  run_and_expect_contract(context, call);
  GuardedCall chunked(problem_of(MaskKind::causal_bottom_right, 197, {}, {131, 197}));
  chunked.upload();
  run_and_expect_contract(context, chunked);
  CHECK(bits_of(chunked.out(), DType::f16) == bits_of(call.out(), DType::f16));
  CHECK(chunked.lse() == call.lse());
}
