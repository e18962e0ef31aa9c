// The model of a forward's time beside what an H100 took (docs/measurements/2026-11-25-h100-grid).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <generator/head_packing.h>
#include <generator/kernels/forward_time.h>

#include <templates/attention/common/tile_schedule.cuh>

using namespace fa2;

namespace {

struct Measured {
  int batch, queries, keys, heads_q, heads_kv, head_dim;
  int tile_m, ctas_per_sm;
  bool splits;
  double us;
};

AttentionProblem problem_of(const Measured& m) {
  AttentionProblem p{.head_dim = m.head_dim, .batch = m.batch, .heads_q = m.heads_q, .heads_kv = m.heads_kv};
  p.seqlen_q = m.queries;
  p.seqlen_k = m.keys;
  return p.normalized();
}

KernelConfig config_of(const Measured& m) {
  return {.kernel = KernelId::forward_sm90,
          .tile_m = m.tile_m,
          .tile_n = m.head_dim == 256 ? 64 : 128,
          .ctas_per_sm = m.ctas_per_sm,
          .schedule = m.splits ? kSplitKeys : kDynamicPersistent};
}

}  // namespace

TEST_CASE("forward time: estimates are within a third of what was measured") {
  const Measured measured[] = {
      {4, 128, 664, 10, 1, 128, 128, 1, false, 14.4},   {4, 128, 664, 10, 1, 128, 128, 1, true, 18.2},
      {5, 64, 345, 4, 2, 128, 128, 1, false, 9.2},      {5, 64, 345, 4, 2, 128, 128, 1, true, 14.7},
      {1, 256, 4096, 32, 8, 128, 128, 1, false, 46.8},  {1, 256, 4096, 32, 8, 128, 128, 1, true, 40.0},
      {8, 128, 8192, 32, 8, 128, 128, 1, false, 202.6}, {8, 128, 8192, 32, 8, 128, 128, 1, true, 242},
      {1, 16, 6167, 10, 2, 128, 128, 1, true, 16.0},    {1, 16, 3534, 6, 2, 128, 64, 2, true, 11.1},
      {1, 16, 32768, 32, 8, 128, 64, 2, true, 59.9},    {1, 1, 8192, 32, 8, 128, 64, 2, true, 18.1},
      {12, 128, 46647, 2, 2, 128, 128, 1, true, 236},   {100, 16, 37564, 10, 1, 128, 192, 1, false, 641},
      {16, 16, 43175, 28, 2, 128, 128, 1, true, 427},   {2, 64, 24020, 52, 4, 128, 128, 1, true, 170},
      {5, 64, 31012, 24, 4, 128, 128, 1, true, 340},    {13, 64, 2996, 14, 2, 256, 128, 1, false, 68},
      {21, 64, 7218, 2, 2, 64, 128, 1, true, 45},       {57, 128, 22719, 2, 1, 64, 192, 1, false, 209},
  };
  for (const Measured& m : measured) {
    const double estimate = estimated_time(problem_of(m), config_of(m));
    CAPTURE(fmt::format("{} x {}/{}, heads {}/{}, d {}, tile_m {}, {}: {:.1f} of {:.1f} us", m.batch,
                        m.queries, m.keys, m.heads_q, m.heads_kv, m.head_dim, m.tile_m,
                        m.splits ? "split" : "whole", estimate, m.us));
    CHECK(estimate > m.us * 0.67);
    CHECK(estimate < m.us * 1.5);
  }
}

TEST_CASE("forward time: rounds, masks, windows and chunks") {
  const Measured full_round{1, 128, 8192, 132, 12, 128, 128, 1, false, 0};
  const Measured some_more{1, 128, 8192, 144, 12, 128, 128, 1, false, 0};
  const double once = estimated_time(problem_of(full_round), config_of(full_round));
  CHECK(estimated_time(problem_of(some_more), config_of(some_more)) > 1.8 * once);  // a second round
  AttentionProblem square{.head_dim = 128, .batch = 1, .heads_q = 64, .heads_kv = 64};
  square.seqlen_q = square.seqlen_k = 8192;
  const KernelConfig whole = config_of(full_round);
  AttentionProblem causal = square;
  causal.mask = MaskKind::causal_bottom_right;
  CHECK(estimated_time(causal, whole) < 0.6 * estimated_time(square, whole));
  AttentionProblem narrow = causal;
  narrow.window_left = 500;
  CHECK(estimated_time(narrow, whole) < 0.2 * estimated_time(causal, whole));
  AttentionProblem chunked = causal;
  chunked.attention_chunk = 1024;
  CHECK(estimated_time(chunked, whole) < 0.3 * estimated_time(causal, whole));
  AttentionProblem none = square;
  none.seqlen_q = 0;
  CHECK(estimated_time(none, whole) == 0);
}
