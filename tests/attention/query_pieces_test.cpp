// Queries that are two pieces of a longer sequence: every forward kernel and every kernel of gradients against the reference.
#include "../support/query_pieces.h"

#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/score_text.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::size_t kPieces = 8;
constexpr std::pair<int, int> kLengths[] = {{131, 197}, {200, 61}, {96, 300}, {1, 150}, {97, 97}};

struct Variant {
  MaskKind mask = MaskKind::none;
  std::optional<std::int64_t> left = {}, right = {}, chunk = {};
  bool softcap = false, alibi = false, dropout = false;
};
constexpr MaskKind kCausal = MaskKind::causal_bottom_right;
const std::vector<Variant> kVariants = {{.mask = kCausal},
                                        {.mask = kCausal, .left = 20},
                                        {.left = 45, .right = 9, .softcap = true},
                                        {.right = 7, .alibi = true},
                                        {.mask = kCausal, .alibi = true},
                                        {.mask = kCausal, .dropout = true},
                                        {.mask = kCausal, .chunk = 37},
                                        {.chunk = 64, .dropout = true}};

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,"
    "speculative_max=1,skip_masked=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1"};

AttentionProblem problem_of(const Variant& variant, const std::pair<int, int>& lengths, int dim = 64,
                            DType dtype = DType::f16) {
  AttentionProblem p = grouped_problem(dtype, variant.mask, dim, lengths.first, lengths.second);
  p.query_pieces = true;
  p.window_left = variant.left, p.window_right = variant.right, p.attention_chunk = variant.chunk;
  p.softcap = variant.softcap, p.alibi = variant.alibi, p.dropout = variant.dropout;
  return p;
}

QueryPieces pieces_for(const AttentionProblem& p, std::size_t seed) {
  return pieces_of(static_cast<unsigned>(seed), p.seqlen_q, p.seqlen_k, p.dropout ? 16 : 1);
}

std::string text_of(const QueryPieces& pieces) {
  return std::to_string(pieces.split) + ": " + std::to_string(pieces.first) + ", " +
         std::to_string(pieces.second);
}

bool can_run(const AttentionProblem& p, const KernelConfig& config) {
  return !why_rejected(PlannedProblem(p, {}), config, device(device_under_test()).arch);
}

/// Calls run(problem, config, seed of pieces) for pairs of kernels, variants, pieces, lengths, and element types with head dims. Returns
/// how many it has called.
template <class Run>
std::size_t for_pairs_of(const std::vector<std::string>& configs, const Run& run) {
  std::size_t ran = 0;
  for (const Combination& c : pairwise({configs.size(), kVariants.size(), kPieces, std::size(kLengths), 2})) {
    const AttentionProblem p = problem_of(kVariants[c[1]], kLengths[c[3]], c[4] == 0 ? 64 : 128,
                                          c[4] == 0 ? DType::f16 : DType::bf16);
    const KernelConfig config = parse_config(configs[c[0]]);
    if (!can_run(p, config)) continue;
    run(p, config, c[2]);
    ++ran;
  }
  return ran;
}

void expect_contracts(const std::vector<std::string>& configs) {
  const ScopedContext current(device_under_test());
  const std::size_t ran =
      for_pairs_of(configs, [](const AttentionProblem& p, const KernelConfig& config, std::size_t seed) {
        GuardedCall call(p);
        call.args.query_pieces = pieces_for(p, seed);
        call.upload();
        INFO(to_string(config), ", ", text_of(call.args.query_pieces));
        Context context(pinning(config));
        run_and_expect_contract(context, call);
      });
  CHECK(ran > 2 * kPieces);
}

GuardedBackward backward_at(const AttentionProblem& p, std::size_t seed) {
  GuardedBackward call(p);
  call.forward.args.query_pieces = pieces_for(p, seed);
  call.give_d_lse();
  call.upload();
  return call;
}

void expect_gradients_with(const std::vector<std::string>& configs,
                           Determinism determinism = Determinism::fastest) {
  const ScopedContext current(device_under_test());
  const std::size_t ran =
      for_pairs_of(configs, [&](const AttentionProblem& p, const KernelConfig& config, std::size_t seed) {
        GuardedBackward call = backward_at(p, seed);
        call.determinism = determinism;
        INFO(to_string(config), ", ", to_string(p), ", ", text_of(call.forward.args.query_pieces));
        Context context(pinning(config));
        run_and_expect_gradients(context, call);
      });
  CHECK(ran > kPieces);
}

}  // namespace

TEST_CASE("query pieces: the numerics contract on mma.sync") {
  if (cannot_run()) return;
  expect_contracts(kMmaConfigs);
}

TEST_CASE("query pieces: the numerics contract with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  expect_contracts(kConfigs90);
}

TEST_CASE("query pieces: the numerics contract of wide heads") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (std::size_t i = 0; i < 6; ++i) {
    GuardedCall call(problem_of(kVariants[i], kLengths[i % std::size(kLengths)], 288));
    call.args.query_pieces = pieces_for(call.problem, i + 3);
    call.upload();
    INFO(text_of(call.args.query_pieces));
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("query pieces: gradients of the fused backward on mma.sync") {
  if (cannot_run()) return;
  expect_gradients_with({"kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0",
                         "kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,stages=2,split_gradients=1"});
}

TEST_CASE("query pieces: gradients of the fused backward on wgmma") {
  if (cannot_run_sm_90a()) return;
  expect_gradients_with({"kernel=backward_sm90,tile_m=64,tile_n=128,warps=8,stages=2",
                         "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,pingpong=2,bulk_sums=1",
                         "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2"});
}

TEST_CASE("query pieces: gradients whose dQ is accumulated in order") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (std::size_t i = 0; i < 2 * kVariants.size(); ++i) {
    const AttentionProblem p = problem_of(kVariants[i % kVariants.size()], kLengths[i % std::size(kLengths)]);
    GuardedBackward call = backward_at(p, i);
    call.determinism = Determinism::bitwise;
    INFO(to_string(p), ", ", text_of(call.forward.args.query_pieces));
    run_and_expect_gradients(context, call);
  }
}

TEST_CASE("query pieces: gradients of the separate kernels") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const Combination& c : pairwise({kVariants.size(), kPieces, std::size(kLengths)})) {
    const AttentionProblem p = problem_of(kVariants[c[0]], kLengths[c[2]], 24);
    GuardedBackward call(p, backward_layouts_of(p, misaligned));
    call.forward.args.query_pieces = pieces_for(p, c[1]);
    call.determinism = Determinism::bitwise;
    call.upload();
    INFO(to_string(p), ", ", text_of(call.forward.args.query_pieces));
    run_and_expect_gradients(context, call);
    const BackwardPlan plan =
        context.backward_plan(p, device_under_test(), {.determinism = Determinism::bitwise},
                              {.row_alignment = RowAlignment::element});
    CHECK(pass_of(plan.explain().kernels.at(1).config) == KernelPass::dq);
  }
}

// Keys that no query sees may be of another rank, and not there yet.
TEST_CASE("query pieces: NaN before the first and behind the last visible key reaches no output") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  struct Case {
    Variant variant;
    QueryPieces pieces;
    std::int64_t begin, end;  ///< of 200 keys
  };
  std::vector<std::string> configs = kConfigs90;
  configs.insert(configs.end(), {kMmaConfigs[1], kMmaConfigs[3]});
  for (const Case& c : {Case{{.mask = kCausal}, {20, 0, 60}, 0, 100},
                        Case{{.mask = kCausal, .left = 16}, {20, 50, 80}, 34, 120},
                        Case{{.left = 3, .right = 5}, {40, 30, 30}, 27, 75},
                        Case{{.mask = kCausal, .chunk = 32}, {20, 40, 41}, 32, 81}}) {
    GuardedBackward call(problem_of(c.variant, {40, 200}));
    call.forward.args.query_pieces = c.pieces;
    for (reference::Tensor* tensor : {&call.forward.k, &call.forward.v}) {
      const auto poison = [](float& x) { x = std::numeric_limits<float>::quiet_NaN(); };
      for_rows(*tensor, 0, c.begin, poison);
      for_rows(*tensor, c.end, 200, poison);
    }
    for (const std::string& config : configs) {
      if (config.find("sm90") != config.npos && cannot_run_sm_90a()) continue;
      INFO(config, ", ", to_string(call.forward.problem));
      call.forward.upload();
      Context context(pinning(parse_config(config)));
      run_and_expect_contract(context, call.forward);
    }
    call.upload();
    Context context(untuned());
    run_and_expect_gradients(context, call);
  }
}
