// Query heads that share a key/value head, in groups of every size, on every forward kernel.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <generator/head_packing.h>
#include <runtime/device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kGroups[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 33, 71, 128};
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
/// As many queries as leave rows of a block empty, fill several blocks, and fill tiles without packing.
constexpr std::int32_t kQueries[] = {1, 2, 9, 21, 70};

const std::vector<std::string> kMmaKernels = {"kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2",
                                              "kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=2",
                                              "kernel=forward_split,tile_m=32,tile_n=32,warps=2,stages=2"};
const std::vector<std::string> kWgmmaKernels = {
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2,overlap=1,"
    "speculative_max=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=1,schedule=3,overlap=1",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=2,q_buffers=2,schedule=1,overlap=1,pingpong=1"};

AttentionProblem problem_of(const Combination& c, std::size_t i) {
  AttentionProblem p{.dtype = i % 2 == 1 ? DType::bf16 : DType::f16, .head_dim = 64, .mask = kMasks[c[2]]};
  p.heads_kv = i / 2 % 2 == 1 ? 2 : 1;
  p.heads_q = kGroups[c[1]] * p.heads_kv;
  if (c[3] == 1 || c[3] == 2) p.window_left = 13;
  if (c[3] == 2 && p.mask == MaskKind::none) p.window_right = 5;
  if (c[3] == 3) p.attention_chunk = 11;
  p.alibi = c[4] % 2 == 1;
  p.sinks = c[4] / 2 == 1;
  p.batch_invariant = i % 3 == 2;
  return p;
}

/// Returns a call of two entries of the same lengths, or of sequences with lengths of their own.
GuardedCall call_of(AttentionProblem problem, std::int32_t queries, std::size_t packing) {
  if (packing == std::size(kPackings)) {
    problem.batch = 2;
    problem.seqlen_q = queries;
    problem.seqlen_k = 90;
    return GuardedCall(problem);
  }
  const Lengths lengths({queries, 1, 0, queries / 2 + 1}, {90, 33, 5, 64});
  problem = with_lengths(problem, lengths, kPackings[packing]);
  GuardedCall call(problem, layouts_of(problem, guarded_bshd));
  set_lengths(call, lengths, kPackings[packing]);
  poison_unseen(call);
  return call;
}

/// CHECKs pairs of kernels, groups, masks, windows and variants per head, with all lengths and packings in turn.
void expect_contracts(const std::vector<std::string>& kernels) {
  const ScopedContext current(device_under_test());
  std::size_t i = 0, packed = 0;
  for (const Combination& c : pairwise({kernels.size(), std::size(kGroups), std::size(kMasks), 4, 4})) {
    const AttentionProblem problem = problem_of(c, i);
    ContextOptions options = untuned();
    options.config = parse_config(kernels[c[0]]);
    options.config->skip_masked = options.config->kernel == KernelId::forward_sm90 && has_edges(problem);
    GuardedCall call =
        call_of(problem, kQueries[i % std::size(kQueries)], i / 2 % (std::size(kPackings) + 1));
    call.upload();
    INFO(kernels[c[0]], ", group ", kGroups[c[1]]);
    packed += head_packing(call.problem, *options.config).heads > 1 ? 1 : 0;
    Context context(options);
    run_and_expect_contract(context, call);
    ++i;
  }
  CHECK(packed > i / 2);
}

}  // namespace

TEST_CASE("head groups: every size, with every mask, window and variant per head, on mma.sync") {
  if (cannot_run()) return;
  expect_contracts(kMmaKernels);
}

TEST_CASE("head groups: every size, with every mask, window and variant per head, with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  expect_contracts(kWgmmaKernels);
}
