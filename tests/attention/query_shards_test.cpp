// Zigzag shards of a sequence, as in context parallelism: what their kernels compute are slices of the whole sequence's results.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/score_text.h>
#include <generator/config_space.h>
#include <reference/gradients.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/query_pieces.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using At = reference::ScorePosition;
using reference::Tensor;

constexpr MaskKind kCausal = MaskKind::causal_bottom_right;

/// A problem of whole sequences, and what its text computes.
struct Whole {
  std::string name;
  AttentionProblem problem;
  reference::ScoreFunctions functions = {};
};

AttentionProblem self_attention(MaskKind mask, std::int64_t length, int dim = 64) {
  const int rows = static_cast<int>(length);
  return grouped_problem(DType::bf16, mask, dim, rows, rows);
}

/// Returns problems in which each use of a query's position changes every row.
std::vector<Whole> wholes(std::int64_t length) {
  std::vector<Whole> all;
  const auto add = [&](std::string name, MaskKind mask) -> Whole& {
    return all.emplace_back(Whole{std::move(name), self_attention(mask, length)});
  };
  add("causal", kCausal);
  add("window", kCausal).problem.window_left = 50;
  AttentionProblem& two_sides = add("window of two sides", MaskKind::none).problem;
  two_sides.window_left = 20, two_sides.window_right = 70;
  add("alibi", kCausal).problem.alibi = true;
  add("alibi of both sides", MaskKind::none).problem.alibi = true;
  add("dropout", kCausal).problem.dropout = true;
  add("chunks", kCausal).problem.attention_chunk = 100;
  Whole& text = add("bias by position", kCausal);
  text.problem.score_text =
      make_score_text({.bias = "return 0.02f * at.query - 0.001f * at.queries * (at.query % 5);"});
  text.functions.mod = [](double s, const At& at) {
    return s + 0.02 * static_cast<double>(at.query) -
           0.001 * static_cast<double>(at.queries * (at.query % 5));
  };
  Whole& mask = add("mask by position", MaskKind::none);
  mask.problem.score_text = make_score_text(
      {.mask = "return at.key / 48 == at.query / 48 || at.key + at.queries < at.query + at.keys - 120;"});
  mask.functions.mask = [](const At& at) {
    return at.key / 48 == at.query / 48 || at.key + at.queries < at.query + at.keys - 120;
  };
  return all;
}

/// Returns the rows of a tensor's two chunks.
Tensor shard_of(const Tensor& whole, const QueryPieces& pieces, std::int64_t rows) {
  Tensor shard{whole.batch, whole.heads, rows, whole.dim, {}};
  for (std::int64_t head = 0; head < whole.batch * whole.heads; ++head) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto row =
          whole.values.begin() + (head * whole.rows + reference::query_position(pieces, i)) * whole.dim;
      shard.values.insert(shard.values.end(), row, row + whole.dim);
    }
  }
  return shard;
}

AttentionProblem shard_of(AttentionProblem p, std::int64_t rows) {
  p.seqlen_q = rows;
  p.query_pieces = true;
  return p;
}

/// Returns the forward of a shard over all keys.
GuardedCall shard_of(const GuardedCall& whole, const QueryPieces& pieces, std::int64_t rows) {
  GuardedCall shard(shard_of(whole.problem, rows));
  shard.functions = whole.functions;
  shard.args.query_pieces = pieces;
  shard.q = shard_of(whole.q, pieces, rows), shard.k = whole.k, shard.v = whole.v;
  shard.upload();
  return shard;
}

/// CHECKs that the shards of `ranks` have the bits of the whole sequence's rows.
void expect_slices(const std::string& config, std::int64_t ranks, std::int64_t chunk) {
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config(config)));
  for (const Whole& of : wholes(2 * ranks * chunk)) {
    if (why_rejected(PlannedProblem(of.problem, {}), parse_config(config), device(device_under_test()).arch))
      continue;
    INFO(of.name, ", ", config);
    GuardedCall whole(of.problem);
    whole.functions = of.functions;
    whole.upload();
    run_and_expect_contract(context, whole);
    const std::vector<float> sums = whole.lse();
    const Tensor all_sums{whole.q.batch, whole.q.heads, whole.q.rows, 1, sums};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const QueryPieces pieces = zigzag(rank, ranks, chunk);
      const GuardedCall shard = shard_of(whole, pieces, 2 * chunk);
      run_and_expect_contract(context, shard);
      CHECK(bits_of(shard.out(), DType::bf16) ==
            bits_of(shard_of(whole.out(), pieces, 2 * chunk), DType::bf16));
      CHECK(shard.lse() == shard_of(all_sums, pieces, 2 * chunk).values);
    }
  }
}

void add_to(Tensor& sum, const Tensor& part) {
  if (sum.values.empty()) return static_cast<void>(sum = part);
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += part.values[i];
}

}  // namespace

TEST_CASE("query shards: outputs on mma.sync have the bits of the whole sequence's") {
  if (cannot_run()) return;
  expect_slices("kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2", 2, 64);
  expect_slices("kernel=forward_sm80,tile_m=64,tile_n=48,warps=4,stages=3,q_in_registers=1", 3, 64);
}

TEST_CASE("query shards: outputs of forward_sm90 have the bits of the whole sequence's") {
  if (cannot_run_sm_90a()) return;
  expect_slices(
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
      "speculative_max=1,"
      "skip_masked=1",
      2, 128);
  expect_slices(
      "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2", 2, 64);
}

TEST_CASE("query shards: gradients add up to the whole sequence's") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr std::int64_t kRanks = 2, kChunk = 48;
  Context context(untuned());
  for (const Whole& of : wholes(2 * kRanks * kChunk)) {
    INFO(of.name);
    GuardedBackward whole(of.problem);
    whole.forward.functions = of.functions;
    const GuardedCall& in = whole.forward;
    const auto exact =
        reference::gradients_f64(in.problem, in.q, in.k, in.v, whole.d_out, nullptr, in.rule());
    const auto baseline =
        reference::gradients_baseline(in.problem, in.q, in.k, in.v, whole.d_out, nullptr, in.rule());
    Tensor dk, dv;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      const QueryPieces pieces = zigzag(rank, kRanks, kChunk);
      GuardedBackward shard(shard_of(of.problem, 2 * kChunk));
      shard.forward.functions = of.functions;
      shard.forward.args.query_pieces = pieces;
      shard.forward.q = shard_of(in.q, pieces, 2 * kChunk);
      shard.forward.k = in.k, shard.forward.v = in.v;
      shard.d_out = shard_of(whole.d_out, pieces, 2 * kChunk);
      shard.upload();
      run_and_expect_gradients(context, shard);
      expect_close("dq", shard.dq(), shard_of(exact.dq, pieces, 2 * kChunk),
                   shard_of(baseline.dq, pieces, 2 * kChunk));
      add_to(dk, shard.dk());
      add_to(dv, shard.dv());
    }
    expect_close("dk", dk, exact.dk, baseline.dk);
    expect_close("dv", dv, exact.dv, baseline.dv);
  }
}

TEST_CASE("query shards: packed sequences have positions of their own") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::vector<Lengths> mixes = {{{5, 70, 3, 20, 0, 33}, {0, 110, 90, 128, 8, 33}},
                                      {{129, 64, 1}, {200, 130, 77}},
                                      {many_lengths(2, 34), many_lengths(7, 34)}};
  std::size_t i = 0;
  for (const Packing packing : kPackings) {
    for (const Lengths& lengths : mixes) {
      AttentionProblem problem{
          .head_dim = 64, .mask = i % 3 == 2 ? MaskKind::none : kCausal, .heads_q = 2, .heads_kv = 1};
      problem.query_pieces = true;
      if (i % 2 == 1) problem.window_left = 40;
      problem.alibi = i % 4 == 0, problem.dropout = i % 5 == 3;
      INFO(i);
      const AttentionProblem p = with_lengths(problem, lengths, packing);
      GuardedBackward call(p);
      set_lengths(call.forward, lengths, packing);
      for (std::size_t b = 0; b < lengths.q.size(); ++b) {
        const QueryPieces of =
            pieces_of(static_cast<unsigned>(b + i), lengths.q[b], lengths.k[b], problem.dropout ? 16 : 1);
        for (const std::int64_t number : {of.split, of.first, of.second})
          call.forward.tables.query_pieces.push_back(static_cast<std::int32_t>(number));
      }
      call.give_d_lse();
      poison_unseen(call);
      call.forward.upload();
      Context context(untuned());
      run_and_expect_contract(context, call.forward);
      call.upload();
      run_and_expect_gradients(context, call);
      ++i;
    }
  }
}
