// The grids, parameters and memory of a backward's launches.
#include <api/plan.h>
#include <autotune/candidates.h>
#include <core/arch.h>
#include <doctest/doctest.h>
#include <planning/backward.h>
#include <runtime/device.h>
#include <tests/support/backward_request.h>
#include <tests/support/fake_kernels.h>
#include <tests/support/mma_configs.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <templates/attention/common/params.cuh>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr KernelPass kPasses[] = {KernelPass::delta, KernelPass::dq, KernelPass::dk_dv,
                                  KernelPass::dk,    KernelPass::dv, KernelPass::d_sinks};

KernelConfig config_of(KernelPass pass, int tile_m = 64) {
  KernelConfig config = config_on_every_gpu(pass);
  config.tile_m = tile_m;
  return config;
}

Step step_of(const AttentionProblem& p, KernelPass pass, int tile_m = 64,
             std::shared_ptr<const Kernel> kernel = nullptr) {
  return backward_step(p, config_of(pass, tile_m), std::move(kernel), scratch_for(p));
}

BackwardParams constants_of(const AttentionProblem& p, KernelPass pass, int tile_m = 64) {
  return step_of(p, pass, tile_m).constants.as<BackwardParams>();
}

std::uint32_t grid_of(const AttentionProblem& p, KernelPass pass, int tile_m) {
  return step_of(p, pass, tile_m).shape.grid;
}

/// Returns "NAME:ACCESS" of each operand.
std::string uses_of(KernelPass pass) {
  const BackwardOperands operands = backward_operands_of(causal_gqa(), {});
  std::string text;
  for (const OperandUse& use : step_of(causal_gqa(), pass).uses)
    text += (text.empty() ? "" : " ") + use_text(operands[use.role].name, use.access);
  return text;
}

BackwardParams filled(const Step& step, const AttentionProblem& p, const BackwardArgs& args) {
  ParamsBuffer buffer;
  const BackwardOperands operands = backward_operands_of(p, args);
  step.fill(step, {.problem = p, .args = args, .operands = operands}, buffer);
  CHECK(buffer.size() == sizeof(BackwardParams));
  return buffer.as<BackwardParams>();
}

const float* delta_of(const Launch& launch) {
  BackwardParams params;
  REQUIRE(launch.params.size() == sizeof params);
  std::memcpy(&params, launch.params.data(), sizeof params);
  return params.delta;
}

/// Returns a plan for the interpreter.
BackwardPlan plan_of(const std::vector<KernelPass>& passes, const Gradients& gradients,
                     std::vector<Launch>& launches) {
  auto plan = std::make_shared<Plan>();
  plan->problem = {causal_gqa(), {}};
  plan->gradients = gradients;
  plan->device = kInterpreterDevice;
  const ScopedContext current(kInterpreterDevice);
  plan->scratch = std::make_shared<const ScratchPool>();
  for (const KernelPass pass : passes)
    plan->add(step_of(causal_gqa(), pass, 64, std::make_shared<RecordingKernel>("", launches)));
  return BackwardPlan(std::move(plan));
}

}  // namespace

TEST_CASE("backward steps: one block per query tile or key tile and head") {
  const AttentionProblem p = causal_gqa();
  for (const KernelPass pass : {KernelPass::delta, KernelPass::dq}) {
    CHECK(grid_of(p, pass, 64) == 16 * 64);  // tiles of 1000 rows, heads
    CHECK(grid_of(p, pass, 128) == 8 * 64);
  }
  for (const KernelPass pass : {KernelPass::dk_dv, KernelPass::dk, KernelPass::dv}) {
    CHECK(grid_of(p, pass, 64) == 63 * 16);  // tiles of 4000 keys, heads of K and V
    CHECK(grid_of(p, pass, 128) == 32 * 16);
  }
}

TEST_CASE("backward steps: one block per sink computes its gradient") {
  AttentionProblem p = causal_gqa();
  CHECK(grid_of(p, KernelPass::d_sinks, 64) == 32);
  p.varlen = true, p.batch = 64, p.total_q = 6400;
  CHECK(grid_of(p, KernelPass::d_sinks, 64) == 32);
  p.seqlen_q = p.seqlen_k = 0;  // a kernel must write the 0
  CHECK(has_tiles(p, KernelPass::d_sinks));
}

TEST_CASE("backward steps: packed sequences have as many tiles of a side as are possible") {
  AttentionProblem p = causal_gqa();
  p.varlen = true;
  p.batch = 64;
  CHECK(grid_of(p, KernelPass::dq, 64) == 16 * 64 * 32);  // batched: each may be the longest
  CHECK(grid_of(p, KernelPass::dk_dv, 64) == 63 * 64 * 8);
  p.total_q = 6400, p.total_k = 100000;
  for (const KernelPass pass : {KernelPass::delta, KernelPass::dq})
    CHECK(grid_of(p, pass, 64) == (6400 / 64 + 64) * 32);  // each sequence may end inside a tile
  for (const KernelPass pass : {KernelPass::dk_dv, KernelPass::dk, KernelPass::dv})
    CHECK(grid_of(p, pass, 128) == (100000 / 128 + 64) * 8);
  p.seqlen_k = 128;
  CHECK(grid_of(p, KernelPass::dk_dv, 128) == 64 * 8);  // no sequence is longer than this
  const BackwardParams params = constants_of(p, KernelPass::dk_dv);
  CHECK(params.attention.sequences.total_q == 6400);
  CHECK(params.attention.sequences.total_k == 100000);
  CHECK(params.attention.sequences.batch == 64);
  CHECK(params.heads_kv == 8);
  CHECK(params.sections.heads[0].value == 8);  // of one sequence
}

TEST_CASE("backward steps: parameters hold the tiles and heads of both sides") {
  const BackwardParams keys = constants_of(causal_gqa(), KernelPass::dk_dv, 128);
  CHECK(keys.k_tiles == 32);
  CHECK(keys.kv_head_count == 16);
  CHECK(keys.heads_kv == 8);
  CHECK(keys.attention.queries_per_kv == 4);
  CHECK(keys.attention.heads_q == 32);
  CHECK(keys.attention.seqlen_q == 1000);
  CHECK(keys.attention.seqlen_k == 4000);
  const BackwardParams queries = constants_of(causal_gqa(), KernelPass::dq, 128);
  CHECK(queries.attention.q_tiles == 8);
  CHECK(queries.attention.head_count == 64);
}

TEST_CASE("backward steps: a section holds the key/value heads of the forward's query heads, at least one") {
  AttentionProblem p = causal_gqa();
  const auto section = [&] { return constants_of(p, KernelPass::dk_dv).sections.heads[0].value; };
  CHECK(section() == 16);  // 64 query heads
  p.heads_q = p.heads_kv = 65;
  p.batch = 1;
  CHECK(section() == 33);
  p.heads_kv = 1;  // its group is one section
  CHECK(section() == 1);
  p = causal_gqa();
  p.mask = MaskKind::none;
  CHECK(section() == 1);
}

TEST_CASE("backward steps: a pass without tiles has no step") {
  AttentionProblem p = causal_gqa();
  for (const KernelPass pass : kPasses) CHECK(has_tiles(p, pass));
  p.seqlen_k = 0;  // a kernel must write dQ = 0
  CHECK(has_tiles(p, KernelPass::delta));
  CHECK(has_tiles(p, KernelPass::dq));
  for (const KernelPass pass : {KernelPass::dk_dv, KernelPass::dk, KernelPass::dv})
    CHECK_FALSE(has_tiles(p, pass));
  p = causal_gqa();
  p.seqlen_q = 0;
  CHECK_FALSE(has_tiles(p, KernelPass::delta));
  CHECK_FALSE(has_tiles(p, KernelPass::dq));
  for (const KernelPass pass : {KernelPass::dk_dv, KernelPass::dk, KernelPass::dv}) CHECK(has_tiles(p, pass));
  p = causal_gqa();
  p.batch = 0;
  for (const KernelPass pass : kPasses) CHECK_FALSE(has_tiles(p, pass));
}

TEST_CASE("backward steps: without queries or keys, the other side's grid does not change") {
  AttentionProblem p = causal_gqa();
  p.seqlen_q = 0;
  CHECK(grid_of(p, KernelPass::dk_dv, 128) == 32 * 16);
  CHECK(constants_of(p, KernelPass::dk_dv).attention.seqlen_q == 0);
  p = causal_gqa();
  p.seqlen_k = 0;
  CHECK(grid_of(p, KernelPass::dq, 128) == 8 * 64);
  CHECK(constants_of(p, KernelPass::dq).attention.seqlen_k == 0);
}

TEST_CASE("backward steps: parameters carry the call's pointers, strides and scalars") {
  const AttentionProblem p = causal_gqa();
  BackwardArgs args = backward_arguments(p);
  args.forward.q_strides = {1, 2, 3};
  args.d_out_strides = {-4, 5, 6};
  args.dq_strides = {7, 8, 9};
  args.dk_strides = {std::int64_t{1} << 40, 11, 12};
  args.dv_strides = {13, 0, 15};
  float d_sinks = 0;
  args.d_sinks = &d_sinks;
  args.forward.softmax_scale = -0.5f;
  args.forward.empty_row_lse = EmptyRowLse::negative_infinity;
  for (const KernelPass pass : kPasses) {
    const BackwardParams params = filled(step_of(p, pass), p, args);
    CHECK(params.attention.q == args.forward.q);
    CHECK(params.attention.k == args.forward.k);
    CHECK(params.attention.v == args.forward.v);
    CHECK(params.attention.o == args.forward.out);
    CHECK(params.attention.lse == args.forward.lse);
    CHECK(params.attention.q_strides.row_stride == 3);
    CHECK(params.attention.scale == -0.5f);
    CHECK(params.attention.empty_row_lse == -std::numeric_limits<float>::infinity());
    CHECK(params.d_o == args.d_out);
    CHECK(params.d_sinks == args.d_sinks);
    CHECK(params.d_lse == args.d_lse);
    CHECK(params.dq == args.dq);
    CHECK(params.dk == args.dk);
    CHECK(params.dv == args.dv);
    CHECK(params.d_o_strides.batch_stride == -4);
    CHECK(params.dq_strides.head_stride == 8);
    CHECK(params.dk_strides.batch_stride == 1ll << 40);
    CHECK(params.dv_strides.row_stride == 15);
    CHECK(params.k_tiles == constants_of(p, pass).k_tiles);
  }
}

TEST_CASE("backward steps: each uses only what it reads, and writes only its own gradients") {
  const std::string tables = "cu_seqlens_q:read cu_seqlens_k:read seqused_q:read seqused_k:read ";
  CHECK(uses_of(KernelPass::delta) == tables + "out:read d_out:read d_lse:read lse:read");
  const std::string inputs =
      tables + "q:read k:read v:read lse:read d_out:read dropout.state:read query_pieces.table:read " +
      reads_of_numbers();
  CHECK(uses_of(KernelPass::dq) == inputs + "dq:write");
  CHECK(uses_of(KernelPass::dk_dv) == inputs + "dk:write dv:write");
  CHECK(uses_of(KernelPass::dk) == inputs + "dk:write");
  CHECK(uses_of(KernelPass::dv) == inputs + "dv:write");
  CHECK(uses_of(KernelPass::d_sinks) == tables + "lse:read " + reads_of_numbers() + "d_sinks:write");
}

TEST_CASE(
    "backward steps: all candidates of a search write the same operands, however many kernels add them up") {
  const Arch& hopper = *find_arch("sm_90a");
  const PlannedProblem p({.head_dim = 64, .heads_q = 4, .heads_kv = 2, .seqlen_q = 97, .seqlen_k = 130}, {});
  for (const KernelPass pass : {KernelPass::dq_dk_dv, KernelPass::dq, KernelPass::dk_dv}) {
    std::set<std::vector<Role>> written;
    for (const KernelConfig& config : search_candidates(p, hopper, TuneScope::all, pass)) {
      const BackwardScratch scratch = sums_dq(pass) ? scratch_for(p, config, 132) : scratch_for(p);
      std::vector<Step> steps{backward_step(p, config, nullptr, scratch)};
      if (sums_dq(pass)) steps.push_back(backward_step(p, conversion_of(config).config, nullptr, scratch));
      written.insert(operands_written(steps));
    }
    CHECK(written.size() == 1);
    CHECK(std::ranges::is_sorted(*written.begin()));
  }
}

TEST_CASE("backward steps: delta takes a float per row of Q and head, rounded up to the alignment") {
  AttentionProblem p = causal_gqa();
  CHECK(scratch_for(p).bytes(p) == 4 * 2 * 32 * 1000);
  p.seqlen_q = 1001;
  CHECK(scratch_for(p).bytes(p) == 4 * 2 * 32 * 1001);
  p.batch = 1, p.heads_q = p.heads_kv = 3, p.seqlen_q = 21;  // 252 bytes
  CHECK(scratch_for(p).bytes(p) == 256);
  p.seqlen_q = 22;
  CHECK(scratch_for(p).bytes(p) == 512);
  p.seqlen_q = 0;
  CHECK(scratch_for(p).bytes(p) == 0);
  p.batch = 1 << 20, p.heads_q = 64, p.seqlen_q = 1 << 10;
  CHECK(scratch_for(p).bytes(p) == std::size_t{1} << 38);
  p = causal_gqa();
  p.varlen = true;
  CHECK(scratch_for(p).bytes(p) == 4 * 2 * 32 * 1000);
  p.total_q = 1300;  // (heads_q, total_q)
  CHECK(scratch_for(p).bytes(p) == 4 * 32 * 1300);
}

TEST_CASE("backward steps: one writes delta, others read it, and dV alone needs none") {
  for (const KernelPass pass : kPasses) {
    const WorkspacePart part = step_of(causal_gqa(), pass).scratch;
    CHECK(part.bytes == (pass == KernelPass::dv ? 0 : scratch_for(causal_gqa()).bytes(causal_gqa())));
    if (pass == KernelPass::dv) continue;
    CHECK(part.begin == 0);
    CHECK(part.access == (pass == KernelPass::delta ? Access::write : Access::read));
  }
}

TEST_CASE("backward steps: all steps of a plan share one scratch, in order; dV alone has none") {
  std::vector<Launch> launches;
  const BackwardPlan plan =
      plan_of({KernelPass::delta, KernelPass::dq, KernelPass::dk, KernelPass::dv}, {}, launches);
  CHECK(plan.workspace_bytes() == scratch_for(causal_gqa()).bytes(causal_gqa()));
  BackwardArgs args = backward_arguments(causal_gqa());
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{13} << 34);
  plan.run(args);
  REQUIRE(launches.size() == 4);
  const std::string inputs = "q:read k:read v:read lse:read d_out:read ";
  CHECK(text_of(launches[0].ranges) == "out:read d_out:read d_lse:read lse:read workspace:write");
  CHECK(text_of(launches[1].ranges) == inputs + "dq:write workspace:read");
  CHECK(text_of(launches[2].ranges) == inputs + "dk:write workspace:read");
  CHECK(text_of(launches[3].ranges) == inputs + "dv:write");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(delta_of(launches[i]) == args.workspace);
    const MemoryRange& scratch = launches[i].ranges.back();
    CHECK_FALSE(scratch.initialised);
    CHECK(static_cast<const void*>(scratch.begin) == args.workspace);
    CHECK(scratch.bytes == scratch_for(causal_gqa()).bytes(causal_gqa()));
  }
  CHECK(delta_of(launches[3]) == nullptr);
}

TEST_CASE("backward steps: without a workspace, all steps of a run share memory of the stream") {
  std::vector<Launch> launches;
  const BackwardPlan plan =
      plan_of({KernelPass::delta, KernelPass::dq}, {.dk = false, .dv = false}, launches);
  BackwardArgs args = backward_arguments(causal_gqa());
  args.dk = args.dv = nullptr;
  plan.run(args);
  REQUIRE(launches.size() == 2);
  CHECK(delta_of(launches[0]) != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(delta_of(launches[0])) % 256 == 0);
  CHECK(delta_of(launches[1]) == delta_of(launches[0]));
  CHECK(text_of(launches[1].ranges).ends_with("workspace:read"));
}

TEST_CASE("backward steps: with wrong arguments none is launched") {
  std::vector<Launch> launches;
  const BackwardPlan plan = plan_of({KernelPass::delta, KernelPass::dq, KernelPass::dk_dv}, {}, launches);
  BackwardArgs args = backward_arguments(causal_gqa());
  args.forward.lse = nullptr;
  args.dq = nullptr;
  CHECK_THROWS_WITH_AS(plan.run(args), doctest::Contains("dq = null"), InvalidRequest);
  CHECK_THROWS_WITH_AS(plan.run(args), doctest::Contains("lse = null"), InvalidRequest);
  args = backward_arguments(causal_gqa());
  args.workspace = reinterpret_cast<std::byte*>(args.dk) - 256;  // its end overlaps the beginning of dK
  CHECK_THROWS_WITH_AS(plan.run(args), doctest::Contains("must not overlap workspace"), InvalidRequest);
  args.workspace = reinterpret_cast<void*>((std::uintptr_t{13} << 34) + 128);
  CHECK_THROWS_WITH_AS(plan.run(args), doctest::Contains("must be a multiple of 256 bytes"), InvalidRequest);
  CHECK(launches.empty());
}

TEST_CASE("backward steps: two blocks, which form a cluster, for each key tile of wide heads") {
  const KernelConfig config = default_config(KernelId::backward_sm90);  // tiles of 128 keys
  for (const auto& [head_dim, cluster] : {std::pair{128, 1U}, std::pair{256, 2U}}) {
    const AttentionProblem p =
        AttentionProblem{
            .head_dim = head_dim, .batch = 3, .heads_q = 10, .heads_kv = 5, .seqlen_q = 300, .seqlen_k = 700}
            .normalized();
    const Step step = backward_step(p, config, nullptr, scratch_for(p, config, 0));
    CHECK(step.shape.cluster == cluster);
    CHECK(step.shape.grid == cluster * 3 * 5 * 6);
  }
}
