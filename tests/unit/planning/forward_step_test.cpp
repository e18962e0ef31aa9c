// The grid and the parameters of a forward.
#include <doctest/doctest.h>
#include <planning/attention_params.h>
#include <planning/forward.h>
#include <tests/support/backward_request.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <templates/attention/common/params.cuh>
#include <templates/attention/common/tile_schedule.cuh>

namespace {

using namespace fa2;
using namespace fa2::test;

Step step_of(const AttentionProblem& p, const KernelConfig& config = {}, int sm_count = 132) {
  return forward_step(p, config, nullptr, sm_count);
}

std::uint32_t grid_of(const AttentionProblem& p, const KernelConfig& config, int sm_count = 132) {
  return step_of(p, config, sm_count).shape.grid;
}

}  // namespace

TEST_CASE("one block for each query tile of each head") {
  KernelConfig config;
  config.tile_m = 128;
  const Step step = step_of(causal_gqa(4096), config);
  const AttentionParams& params = step.constants.as<AttentionParamsSm80>().attention;
  CHECK(step.shape.grid == 512);
  CHECK(params.q_tiles == 8);
  CHECK(params.head_count == 64);
  CHECK(params.queries_per_kv == 4);
  CHECK(params.seqlen_q == 1000);
  CHECK(params.seqlen_k == 4096);
}

TEST_CASE("an empty key sequence changes nothing about the launch") {
  AttentionProblem p = causal_gqa(4096);
  p.seqlen_k = 0;
  CHECK(grid_of(p, {}) == 1024);
  CHECK(heads_per_section(p, {}) == 64);
}

TEST_CASE("causal heads form equal sections of at most 64, in whole groups") {
  AttentionProblem p = causal_gqa(4096);
  CHECK(heads_per_section(p, {}) == 64);
  p.batch *= 3;  // 192 heads
  CHECK(heads_per_section(p, {}) == 64);
  p.heads_q = p.heads_kv = 65;
  p.batch = 1;
  CHECK(heads_per_section(p, {}) == 33);  // 33 + 32, not 64 + 1
  p.heads_kv = 1;
  CHECK(heads_per_section(p, {}) == 65);  // a group is never split
  p.batch = 0;
  CHECK(heads_per_section(p, {}) == 0);
  p.mask = MaskKind::none;
  CHECK(heads_per_section(p, {}) == 1);
}

TEST_CASE("forward_sm90: persistent blocks, and sections that L2 holds") {
  KernelConfig config;
  config.kernel = KernelId::forward_sm90;
  config.tile_m = 128;
  config.ctas_per_sm = 2;
  AttentionProblem p = causal_gqa(4096);
  CHECK(grid_of(p, config) == 512);  // one tile per block
  CHECK(step_of(p, config).counters.bytes == 0);
  for (const TileSchedule schedule : {kStaticPersistent, kDynamicPersistent}) {
    config.schedule = schedule;
    CHECK(grid_of(p, config) == 264);
    CHECK(grid_of(p, config, 1000) == 512);
    CHECK(step_of(p, config).counters.bytes == (schedule == kDynamicPersistent ? 4 : 0));
  }
  // 8 MiB of keys and values, but at least 16 heads and at most 32.
  p.heads_kv = p.heads_q = 64;
  CHECK(heads_per_section(p, config) == 16);
  p.seqlen_k = 512;
  CHECK(heads_per_section(p, config) == 32);
  p.head_dim = p.head_dim_v = 256;
  CHECK(heads_per_section(p, config) == 16);
  p.heads_kv = 8;  // an eighth of the keys and values
  CHECK(heads_per_section(p, config) == 32);
}

TEST_CASE("forward_sm90: split KV launches every block that fits, with room for two splits of each") {
  KernelConfig config =
      parse_config("kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,ctas_per_sm=2,schedule=3");
  AttentionProblem p = causal_gqa(4096);
  p.seqlen_q = 3;
  Step step = step_of(p, config);
  CHECK(step.shape.grid == 264);  // however few tiles there are
  CHECK(step.constants.as<AttentionParamsSm90>().shares.part_rows == 12);
  CHECK(step.scratch.bytes == 2 * 264 * 12 * (128 + 4) * sizeof(float));
  CHECK(step.shape.begins_early);
  CHECK(step.counters.bytes == 1024 * sizeof(std::uint32_t));
  p.seqlen_q = 1000;
  p.head_dim_v = 72;
  step = step_of(p, config);
  CHECK(step.constants.as<AttentionParamsSm90>().shares.part_rows == 64);
  CHECK(step.scratch.bytes == 2 * 264 * 64 * (80 + 4) * sizeof(float));
  CHECK(step_of(p, config, 10000).shape.grid == 511);  // which all may share one tile
  config.tile_m = 128, config.warps = 8;
  CHECK(step_of(p, config, 10000).shape.grid == 511);
}

TEST_CASE("forward_split: a block stores one partial output, however many warps it has") {
  const KernelConfig config = parse_config("kernel=forward_split,tile_m=16,tile_n=16,warps=8,ctas_per_sm=1");
  AttentionProblem p = causal_gqa(4096);
  p.seqlen_q = 3;
  const Step step = step_of(p, config);
  CHECK(step.shape.grid == 132);
  CHECK(step.shape.begins_early);
  const AttentionParamsSplit params = step.constants.as<AttentionParamsSplit>();
  CHECK(params.shares.block_count == 132);
  CHECK(params.shares.part_rows == 12);
  CHECK(step.scratch.bytes == 2 * 132 * 12 * (128 + 4) * sizeof(float));
  CHECK(step.scratch.param == offsetof(AttentionParamsSplit, shares) + offsetof(WorkShares, parts));
  CHECK(step.counters.param == offsetof(AttentionParamsSplit, shares) + offsetof(WorkShares, counters));
  CHECK(step_of(p, config, 10000).shape.grid == 511);
}

TEST_CASE("heads that share tiles count as one head with more rows") {
  KernelConfig config;
  config.kernel = KernelId::forward_sm90;
  config.tile_m = 64;
  AttentionProblem p = causal_gqa(4096);
  p.seqlen_q = 33;
  AttentionParams params = step_of(p, config).constants.as<AttentionParamsSm90>().attention;
  CHECK(params.q_tiles == 3);  // tiles of 132 rows
  CHECK(params.heads_q == p.heads_kv);
  CHECK(params.head_count == p.batch * p.heads_kv);
  CHECK(params.queries_per_kv == 1);
  CHECK(params.seqlen_q == 33);
  CHECK(params.q_rows == 132);
  p.heads_q = 256 * p.heads_kv;  // 128 share tiles, and two such parts share keys
  params = step_of(p, config).constants.as<AttentionParamsSm90>().attention;
  CHECK(params.heads_q == 2 * p.heads_kv);
  CHECK(params.queries_per_kv == 2);
}

TEST_CASE("packed sequences: as many tiles as are possible, whatever their lengths") {
  KernelConfig config;
  config.tile_m = 128;
  AttentionProblem p = causal_gqa(4096);
  p.varlen = true;
  p.batch = 64;
  CHECK(grid_of(p, config) == 64 * 32 * 8);  // batched: each may be the longest
  p.total_q = 6400;
  CHECK(grid_of(p, config) == (6400 / 128 + 64) * 32);  // each sequence may end inside a tile
  p.total_q = 127;                                      // heads share tiles
  CHECK(grid_of(p, config) == ((127 / 16 + 64) * 64 / 128 + 64) * 8);
  p.seqlen_q = 128;
  p.total_q = 64 * 128;
  CHECK(grid_of(p, config) == 64 * 32);  // no sequence is longer than this
  p.total_k = 1 << 20;
  CHECK(grid_of(p, config) == 64 * 32);

  config.kernel = KernelId::forward_sm90;
  config.tile_m = 64;
  p.seqlen_q = 1000;
  p.total_q = 640;
  CHECK(grid_of(p, config) == (640 / 16 + 64 + 64) * 8);  // each sequence may also end inside a block of rows
  config.schedule = kDynamicPersistent;
  config.ctas_per_sm = 2;
  const Step step = step_of(p, config);
  CHECK(step.shape.grid == 264);
}

TEST_CASE("with varlen a section holds heads of one sequence") {
  AttentionProblem p = causal_gqa(4096);
  CHECK(heads_per_section(p, {}) == 64);
  p.varlen = true;
  CHECK(heads_per_section(p, {}) == 32);
  p.batch = 1000;
  CHECK(heads_per_section(p, {}) == 32);
  p.mask = MaskKind::none;
  CHECK(heads_per_section(p, {}) == 1);
}

TEST_CASE("parameters carry the tables of sequences, and the rows of an entry") {
  static const std::int32_t tables[4] = {};
  AttentionProblem p = causal_gqa(4096);
  p.varlen = true;
  p.total_k = 5000;
  AttentionArgs args;
  args.cu_seqlens_k = &tables[0];
  args.seqused_q = &tables[1];
  args.seqused_k = &tables[2];
  const Step step = step_of(p);
  ParamsBuffer buffer;
  step.fill(step, {p, args, operands_of(p, args)}, buffer);
  SequenceTables sequences = buffer.as<AttentionParamsSm80>().attention.sequences;
  CHECK(sequences.cu_seqlens_q == nullptr);
  CHECK(sequences.cu_seqlens_k == &tables[0]);
  CHECK(sequences.seqused_q == &tables[1]);
  CHECK(sequences.seqused_k == &tables[2]);
  CHECK(sequences.total_q == 1000);
  CHECK(sequences.total_k == 5000);
  CHECK(sequences.batch == 2);
  p.total_q = 1200;
  args.cu_seqlens_q = &tables[3];
  const Step packed = step_of(p);
  packed.fill(packed, {p, args, operands_of(p, args)}, buffer);
  sequences = buffer.as<AttentionParamsSm80>().attention.sequences;
  CHECK(sequences.cu_seqlens_q == &tables[3]);
  CHECK(sequences.total_q == 1200);
}

TEST_CASE("the scale in powers of two is normal and finite") {
  CHECK(scale_log2(0.125f) == doctest::Approx(0.180336880).epsilon(1e-7));
  CHECK(scale_log2(-0.125f) == scale_log2(0.125f));
  CHECK(scale_log2(0.0f) == FLT_MIN);
  CHECK(scale_log2(-1e-44f) == FLT_MIN);
  CHECK(scale_log2(FLT_MAX) == FLT_MAX);
}

TEST_CASE("parameters carry the call's pointers, strides and scalars") {
  const AttentionProblem p = causal_gqa(4096);
  const Step step = step_of(p);
  float lse = 0;
  AttentionArgs args;
  args.q = &args;
  args.k = &step;
  args.v = &p;
  args.out = &lse;
  args.lse = &lse;
  args.max_logits = &lse;
  args.q_strides = {1, 2, 3};
  args.k_strides = {-4, 5, 6};
  args.v_strides = {7, 0, 9};
  args.out_strides = {std::int64_t{1} << 40, 11, 12};

  ParamsBuffer buffer;
  step.fill(step, {p, args, operands_of(p, args)}, buffer);
  CHECK(buffer.size() == sizeof(AttentionParamsSm80));
  CHECK(buffer.as<AttentionParamsSm80>().max_logits == &lse);
  AttentionParams params = buffer.as<AttentionParamsSm80>().attention;
  CHECK(params.q == &args);
  CHECK(params.k == &step);
  CHECK(params.v == &p);
  CHECK(params.o == &lse);
  CHECK(params.lse == &lse);
  CHECK(params.q_strides.row_stride == 3);
  CHECK(params.k_strides.batch_stride == -4);
  CHECK(params.v_strides.head_stride == 0);
  CHECK(params.o_strides.batch_stride == 1ll << 40);
  CHECK(params.scale == doctest::Approx(1 / std::sqrt(128.0)).epsilon(1e-7));
  CHECK(params.empty_row_lse == std::numeric_limits<float>::infinity());
  CHECK(params.q_tiles == step.constants.as<AttentionParamsSm80>().attention.q_tiles);

  args.softmax_scale = -0.5f;
  args.empty_row_lse = EmptyRowLse::negative_infinity;
  step.fill(step, {p, args, operands_of(p, args)}, buffer);
  params = buffer.as<AttentionParamsSm80>().attention;
  CHECK(params.scale == -0.5f);
  CHECK(params.scale_log2 == doctest::Approx(0.72134752).epsilon(1e-7));
  CHECK(params.empty_row_lse == -std::numeric_limits<float>::infinity());
}
