// forward_sm90, pinned: the numerics contract, and scores that challenge the speculative maximum.
#include <api/plan.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <templates/attention/common/tile_schedule.cuh>
#include <utility>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/refusals.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// One to three warpgroups and every schedule, with and without overlap, ping-pong, a second Q buffer and
/// speculation.
const std::vector<std::string> kConfigs = {
    "tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2,overlap=1,speculative_max=1",
    "tile_m=128,tile_n=128,warps=8,stages=4,q_buffers=1,schedule=1,overlap=1",
    "tile_m=192,tile_n=80,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,speculative_max=1",
    "tile_m=128,tile_n=48,warps=8,stages=2,q_buffers=1,schedule=0,overlap=1,pingpong=1",
    "tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_max=1",
    "tile_m=64,tile_n=96,warps=4,stages=2,ctas_per_sm=2,q_buffers=1,schedule=2",
    "tile_m=128,tile_n=112,warps=8,stages=3,q_buffers=2,schedule=1,speculative_max=1",
    "tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1",
    "tile_m=128,tile_n=48,warps=8,stages=3,q_buffers=2,schedule=3,overlap=1,pingpong=1,speculative_max=1"};

/// Returns the config; empty if it does not fit the problem.
std::vector<KernelConfig> config_for(const AttentionProblem& problem, const std::string& text) {
  KernelConfig config = parse_config("kernel=forward_sm90," + text);
  config.skip_masked = problem.mask != MaskKind::none;
  if (why_rejected({problem, {}}, config, device(device_under_test()).arch)) return {};
  return {config};
}

/// Runs one call with every `step`-th of the configs that fit, beginning with `first`.
void expect_contract_of(GuardedCall& call, std::size_t first = 0, std::size_t step = 1) {
  std::vector<KernelConfig> fitting;
  for (const std::string& text : kConfigs) {
    for (const KernelConfig& config : config_for(call.problem, text)) fitting.push_back(config);
  }
  REQUIRE_FALSE(fitting.empty());
  for (std::size_t i = first % fitting.size(); i < fitting.size(); i += step) {
    Context context(pinning(fitting[i]));
    INFO(to_string(fitting[i]));
    call.upload();
    try {
      run_and_expect_contract(context, call);
    } catch (const KernelRefused& refused) {
      CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
      MESSAGE("did not run: " << refused.reason());
    }
  }
}

/// Sets query i to e_0 and the first column of key j to score(j), so every row has these scores.
void set_scores(GuardedCall& call, const std::function<float(std::int64_t)>& score) {
  for (std::int64_t b = 0; b < call.problem.batch; ++b) {
    for (std::int64_t h = 0; h < call.problem.heads_q; ++h) {
      for (std::int64_t i = 0; i < call.problem.seqlen_q; ++i) {
        for (std::int64_t d = 0; d < call.q.dim; ++d) call.q.at(b, h, i, d) = d == 0 ? 1.0f : 0.0f;
      }
    }
    for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) {
      for (std::int64_t j = 0; j < call.problem.seqlen_k; ++j)
        call.k.at(b, h, j, 0) = round_to(score(j), call.problem.dtype);
    }
  }
}

}  // namespace

TEST_CASE("forward_sm90 keeps the numerics contract") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::pair<int, int>> lengths = {{1, 129},   {127, 113}, {65, 64},
                                                    {251, 333}, {64, 0},    {300, 40}};
  const std::vector<std::pair<int, int>> head_dims = {{8, 8},     {64, 64},   {72, 40},  {40, 136},
                                                      {128, 128}, {192, 128}, {256, 256}};
  std::size_t i = 0;
  for (const auto& [d, dv] : head_dims) {
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
      const auto& [sq, sk] = lengths[i % lengths.size()];
      const DType dtype = i % 2 == 0 ? DType::f16 : DType::bf16;
      GuardedCall call({.dtype = dtype,
                        .head_dim = d,
                        .head_dim_v = dv,
                        .mask = mask,
                        .batch = 2,
                        .heads_q = 4,
                        .heads_kv = i % 3 == 0 ? 4 : 2,
                        .seqlen_q = sq,
                        .seqlen_k = sk});
      if (i % 4 == 1) call.args.softmax_scale = -0.2f;
      if (sk == 0) call.args.k = call.args.v = nullptr;
      expect_contract_of(call, (i + i / 3) % 3, 3);  // the three cases of a head dim cover every config once
      ++i;
    }
  }
}

TEST_CASE("forward_sm90 packs the query heads of one key/value head into a tile") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  // seqlen_q, seqlen_k, heads_q, heads_kv. Groups leave rows empty, or need two boxes of heads.
  const std::vector<std::array<int, 4>> shapes = {
      {1, 77, 8, 1}, {3, 130, 12, 3}, {17, 64, 14, 2}, {3, 100, 64, 1}, {130, 60, 5, 1},
      {9, 0, 6, 2},  {2, 90, 71, 1},  {3, 64, 128, 1}, {1, 50, 66, 2},  {24, 70, 22, 2}};
  std::size_t i = 0;
  for (const auto& [sq, sk, heads_q, heads_kv] : shapes) {
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
      const int d = std::array{64, 40, 128}[i % 3], dv = std::array{64, 40, 72}[i / 2 % 3];
      const DType dtype = i % 2 == 0 ? DType::f16 : DType::bf16;
      GuardedCall call({.dtype = dtype,
                        .head_dim = d,
                        .head_dim_v = dv,
                        .mask = mask,
                        .batch = 2,
                        .heads_q = heads_q,
                        .heads_kv = heads_kv,
                        .seqlen_q = sq,
                        .seqlen_k = sk});
      if (sk == 0) call.args.k = call.args.v = nullptr;
      expect_contract_of(call, i % kConfigs.size(), 3);
      ++i;
    }
  }
}

// Warpgroups pass over different keys. If one waited for the next tile before it passed its turn on, the slot for that tile would
// never become empty.
TEST_CASE("forward_sm90: warpgroups in turn, with two slots and a window") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(
      pinning(parse_config("kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=2,q_buffers=2,schedule="
                           "1,overlap=1,pingpong=1,skip_masked=1")));
  for (const std::int64_t window : {0, 5, 100}) {
    for (const std::int64_t length : {70, 300}) {
      GuardedCall call({.dtype = DType::bf16,
                        .head_dim = 64,
                        .mask = MaskKind::causal_bottom_right,
                        .window_left = window,
                        .seqlen_q = length,
                        .seqlen_k = length});
      call.upload();
      run_and_expect_contract(context, call);
    }
  }
}

// There are 1.5 times as many tiles as an H100 or H200 runs blocks, at two blocks per SM.
TEST_CASE("forward_sm90 and more tiles than blocks, under every schedule") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(
      {.head_dim = 16, .batch = 25, .heads_q = 16, .heads_kv = 4, .seqlen_q = 20, .seqlen_k = 40});
  for (const int schedule : {0, 1, 2}) {
    ContextOptions options = untuned();
    options.config = parse_config(
        "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=3,ctas_per_sm=2,q_buffers=2,overlap=1");
    options.config->schedule = schedule;
    Context context(options);
    INFO(to_string(*options.config));
    call.upload();
    run_and_expect_contract(context, call);
  }
}

// Two of three slots hold outputs while the next tile's first keys load. Some tiles have no keys, and some warpgroups pass over the
// first blocks of a tile.
TEST_CASE("forward_sm90 stages outputs in the ring, with more tiles than blocks") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  for (const std::int64_t keys : {40, 170}) {
    GuardedCall call({.dtype = DType::bf16,
                      .head_dim = 16,
                      .mask = MaskKind::causal_bottom_right,
                      .batch = 5,
                      .heads_q = 16,
                      .heads_kv = 4,
                      .seqlen_q = 150,
                      .seqlen_k = keys});
    for (const std::string overlap : {"0", "1"}) {
      Context context(
          pinning(parse_config("kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,"
                               "schedule=2,skip_masked=1,overlap=" +
                               overlap)));
      call.upload();
      run_and_expect_contract(context, call);
    }
  }
}

// The next launch with the same counter slot comes thousands of launches later, so no other test would notice
// a counter that is left above 0.
TEST_CASE("forward_sm90 leaves its tile counters at 0") {
  if (cannot_run_sm_90a()) return;
  if (!device(device_under_test()).arch.interpreted) {
    MESSAGE("skipped: the words lie in a GPU's memory");
    return;
  }
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config("kernel=forward_sm90," + kConfigs.front())));
  GuardedCall call(
      {.head_dim = 64, .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 130, .seqlen_k = 40});
  run_and_expect_contract(context, call);
  const MemoryRange words = context.plan(call.problem).impl().steps.at(0).context_counters->memory();
  CHECK(std::all_of(words.begin, words.begin + words.bytes, [](std::byte b) { return b == std::byte{0}; }));
}

// The counters lie in the caller's workspace, between bytes that no launch may touch.
TEST_CASE("forward_sm90 counts tiles in the caller's workspace, and leaves it at 0") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(
      {.head_dim = 64, .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 130, .seqlen_k = 40});
  for (const TileSchedule schedule : {kOneTileEach, kStaticPersistent, kDynamicPersistent}) {
    ContextOptions options = untuned();
    options.config = parse_config("kernel=forward_sm90," + kConfigs.front());
    options.config->schedule = schedule;
    Context context(options);
    INFO(to_string(*options.config));
    const AttentionPlan plan = context.plan(call.problem);
    CHECK(plan.workspace_bytes() == (schedule == kDynamicPersistent ? 256 : 0));
    CHECK(plan.workspace_zeros() == plan.workspace_bytes());
    constexpr std::size_t kAround = 256;
    DeviceBuffer workspace(kAround + plan.workspace_bytes() + kAround);
    workspace.fill(0);
    call.args.workspace = static_cast<std::byte*>(workspace.data()) + kAround;
    for (int launch = 0; launch < 3; ++launch) {
      call.upload();
      plan.run(call.args);
      expect_contract(call);
    }
    std::vector<std::byte> after(workspace.size());
    workspace.download(after.data(), after.size());
    CHECK(std::ranges::count(after, std::byte{0}) == static_cast<std::ptrdiff_t>(after.size()));
  }
}

TEST_CASE("forward_sm90 and scores that rise, fall and jump") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<const char*, std::function<float(std::int64_t)>>> kinds = {
      {"rising with the key", [](std::int64_t j) { return 0.25f * static_cast<float>(j); }},
      {"falling with the key", [](std::int64_t j) { return -0.25f * static_cast<float>(j); }},
      {"constant", [](std::int64_t) { return 3.0f; }},
      {"one by 2^7", [](std::int64_t j) { return j == 70 ? 5.0f : 0.0f; }},
      {"one by 2^14", [](std::int64_t j) { return j == 70 ? 10.0f : 0.0f; }},
      {"one by 2^100", [](std::int64_t j) { return j == 70 ? 70.0f : 0.0f; }},
      {"one by 2^140", [](std::int64_t j) { return j == 70 ? 97.0f : 0.0f; }},
      {"one by 2^90000", [](std::int64_t j) { return j == 3 ? 60000.0f : 0.0f; }},
      {"in steps of 2^20, towards the first key",
       [](std::int64_t j) { return 14.0f * static_cast<float>(10 - j / 16); }},
      {"-inf but for one", [](std::int64_t j) { return j == 20 ? 1.0f : -kInfinity; }},
      {"one +inf", [](std::int64_t j) { return j == 150 ? kInfinity : 0.0f; }}};
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
    GuardedCall call({.head_dim = 64, .mask = mask, .seqlen_q = 100, .seqlen_k = 200});
    for (const float scale : {1.0f, 1e6f}) {
      call.args.softmax_scale = scale;
      for (const auto& kind : kinds) {
        // Without a mask every query sees the infinity, and no row is left to compare.
        if (mask == MaskKind::none && std::string(kind.first) == "one +inf") continue;
        INFO(std::string(kind.first), " at scale ", scale);
        set_scores(call, kind.second);
        expect_contract_of(call, scale == 1.0f ? 0 : 2, scale == 1.0f ? 1 : 2);
      }
    }
  }
}

// No row depends on few keys here: only the size of the exponents keeps a warp from speculating.
TEST_CASE("forward_sm90 and large scores that are all the same") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call({.head_dim = 64, .seqlen_q = 100, .seqlen_k = 200});
  call.args.softmax_scale = 0.1f;
  set_scores(call, [](std::int64_t) { return 60000.0f; });
  expect_contract_of(call);
}
