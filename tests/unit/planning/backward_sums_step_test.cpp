// The launches of a fused backward: delta, the kernel that accumulates dQ, the conversion.
#include <api/plan.h>
#include <doctest/doctest.h>
#include <generator/kernels/backward_sm90.h>
#include <planning/backward.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>
#include <tests/support/backward_request.h>
#include <tests/support/fake_kernels.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <templates/attention/common/params.cuh>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr KernelPass kPasses[] = {KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert};

/// Returns a config with tiles of 64 queries.
KernelConfig summing() {
  return default_config(KernelId::backward_sm90);
}

KernelConfig config_of(KernelPass pass) {
  if (pass == KernelPass::delta) return default_config(KernelId::backward_delta);
  return pass == KernelPass::dq_dk_dv ? summing() : kind_of(summing()).conversion(summing());
}

Step step_of(const AttentionProblem& p, KernelPass pass, std::shared_ptr<const Kernel> kernel = nullptr) {
  return backward_step(p, config_of(pass), std::move(kernel), scratch_for(p, summing(), 0));
}

const BackwardParams& constants_of(const Step& step) {
  return pass_of(step.config) == KernelPass::dq_dk_dv ? step.constants.as<BackwardParamsSm90>().backward
                                                      : step.constants.as<BackwardParams>();
}

std::string uses_of(KernelPass pass) {
  const BackwardOperands operands = backward_operands_of(causal_gqa(), {});
  std::string text;
  for (const OperandUse& use : step_of(causal_gqa(), pass).uses)
    text += (text.empty() ? "" : " ") + use_text(operands[use.role].name, use.access);
  return text;
}

/// Returns the filled parameters, on the interpreter.
BackwardParamsSm90 filled(const AttentionProblem& p, const BackwardArgs& args) {
  const ScopedContext current(kInterpreterDevice);
  const Step step = step_of(p, KernelPass::dq_dk_dv);
  ParamsBuffer buffer;
  const BackwardOperands operands = backward_operands_of(p, args);
  step.fill(step, {.problem = p, .args = args, .operands = operands}, buffer);
  CHECK(buffer.size() == sizeof(BackwardParamsSm90));
  return buffer.as<BackwardParamsSm90>();
}

InterpretedTensorMap described(const TensorMap& map) {
  InterpretedTensorMap inside;
  std::memcpy(&inside, &map, sizeof inside);
  CHECK(inside.mark == InterpretedTensorMap::kMark);
  return inside;
}

/// CHECKs where a map begins, and the box that its copies move.
void check_map(const TensorMap& map, const void* data, std::int64_t rows, std::int32_t box_rows) {
  const InterpretedTensorMap inside = described(map);
  CHECK(inside.data == data);
  CHECK(inside.size[1] == rows);
  CHECK(inside.box[1] == box_rows);
  CHECK(inside.swizzle == Swizzle::span128);
}

const float* delta_of(const Launch& launch) {
  const bool is_fused = launch.params.size() == sizeof(BackwardParamsSm90);
  BackwardParams params;
  std::memcpy(&params, launch.params.data() + (is_fused ? offsetof(BackwardParamsSm90, backward) : 0),
              sizeof params);
  return params.delta;
}

}  // namespace

TEST_CASE("fused backward steps: one block per key tile, then one per query tile") {
  const AttentionProblem p = causal_gqa();
  CHECK(step_of(p, KernelPass::dq_dk_dv).shape.grid == 32 * 16);    // tiles of 4000 keys, heads of K and V
  CHECK(step_of(p, KernelPass::dq_convert).shape.grid == 16 * 64);  // tiles of 1000 queries, heads
  CHECK(has_tiles(p, KernelPass::dq_dk_dv));
  CHECK(has_tiles(p, KernelPass::dq_convert));
  AttentionProblem none = p;
  none.seqlen_k = 0;
  CHECK_FALSE(has_tiles(none, KernelPass::dq_dk_dv));
  none = p;
  none.seqlen_q = 0;
  CHECK(has_tiles(none, KernelPass::dq_dk_dv));  // a kernel must write dK = 0 and dV = 0
  CHECK_FALSE(has_tiles(none, KernelPass::dq_convert));
  CHECK(step_of(none, KernelPass::dq_dk_dv).shape.grid == 32 * 16);
}

TEST_CASE("fused backward steps: on wgmma those behind delta begin early, and delta does not") {
  for (const KernelPass pass : kPasses)
    CHECK(step_of(causal_gqa(), pass).shape.begins_early == (pass != KernelPass::delta));
  const KernelConfig mma = default_config(KernelId::backward_sm80);
  CHECK_FALSE(
      backward_step(causal_gqa(), mma, nullptr, scratch_for(causal_gqa(), mma, 0)).shape.begins_early);
}

TEST_CASE(
    "fused backward steps: delta's blocks fill the last tile, and every step knows the accumulators' "
    "address") {
  AttentionProblem p = causal_gqa();
  p.seqlen_q = 65;  // 128 rows in tiles of 64
  const std::int64_t tile = config_of(KernelPass::delta).tile_m;
  CHECK(step_of(p, KernelPass::delta).shape.grid == (128 + tile - 1) / tile * 64);
  for (const KernelPass pass : kPasses) {
    const Step step = step_of(p, pass);
    CHECK(constants_of(step).statistic_rows == 128);
    CHECK(constants_of(step).statistic_count == 2 * 32 * 128);
    CHECK(constants_of(step).attention.seqlen_q == 65);
  }
  // Without the fused kernel, delta's rows are contiguous.
  const Step alone = backward_step(p, default_config(KernelId::backward_dq_sm80), nullptr, scratch_for(p));
  CHECK(constants_of(alone).statistic_rows == 65);
  CHECK(constants_of(alone).statistic_count == 0);
}

TEST_CASE("fused backward steps: each uses only what it reads, and writes only its own gradients") {
  const std::string tables = "cu_seqlens_q:read cu_seqlens_k:read seqused_q:read seqused_k:read ";
  CHECK(uses_of(KernelPass::delta) == tables + "out:read d_out:read d_lse:read lse:read");
  CHECK(uses_of(KernelPass::dq_dk_dv) ==
        tables + "q:read k:read v:read lse:read d_out:read dropout.state:read query_pieces.table:read " +
            reads_of_numbers() + "dk:write dv:write");
  CHECK(uses_of(KernelPass::dq_convert) == tables + "dq:write");
}

TEST_CASE("fused backward steps: one step writes the scratch, one adds to it, one reads it") {
  const AttentionProblem p = causal_gqa();
  for (const KernelPass pass : kPasses) {
    const WorkspacePart part = step_of(p, pass).scratch;
    CHECK(part.bytes == scratch_for(p, summing(), 0).bytes(p));
    CHECK(part.begin == 0);
  }
  CHECK(step_of(p, KernelPass::delta).scratch.access == Access::write);
  CHECK(step_of(p, KernelPass::dq_dk_dv).scratch.access == Access::read_write);
  CHECK(step_of(p, KernelPass::dq_convert).scratch.access == Access::read);
}

TEST_CASE("fused backward steps: parameters carry pointers, strides and scalars in addition to the maps") {
  const AttentionProblem p = causal_gqa();
  BackwardArgs args = backward_arguments(p);
  args.forward.softmax_scale = -0.5f;
  const BackwardParamsSm90 params = filled(p, args);
  CHECK(params.backward.attention.scale == -0.5f);
  CHECK(params.backward.attention.lse == args.forward.lse);
  CHECK(params.backward.attention.queries_per_kv == 4);
  CHECK(params.backward.dq == args.dq);
  CHECK(params.backward.dk_strides.row_stride == args.dk_strides.row);
  CHECK(params.backward.k_tiles == 32);
  CHECK(params.backward.kv_head_count == 16);
}

TEST_CASE("fused backward steps: the boxes of maps are a stage's queries and a warpgroup's keys") {
  const AttentionProblem p = causal_gqa();
  const BackwardArgs args = backward_arguments(p);
  const BackwardParamsSm90 params = filled(p, args);
  check_map(params.q, args.forward.q, 1000, 64);
  check_map(params.d_o, args.d_out, 1000, 64);
  check_map(params.k, args.forward.k, 4000, 64);
  check_map(params.v, args.forward.v, 4000, 64);
  check_map(params.dk, args.dk, 4000, 64);
  check_map(params.dv, args.dv, 4000, 64);
}

TEST_CASE("fused backward steps: dK and dV in float32 have no map") {
  AttentionProblem p = causal_gqa();
  p.float32_dk_dv = true;
  const BackwardParamsSm90 params = filled(p, backward_arguments(p)), none{};
  CHECK(std::memcmp(&params.dk, &none.dk, sizeof none.dk) == 0);
  CHECK(std::memcmp(&params.dv, &none.dv, sizeof none.dv) == 0);
}

TEST_CASE("fused backward steps: without queries, operands that may be null have no map") {
  AttentionProblem p = causal_gqa();
  p.seqlen_q = 0;
  BackwardArgs args = backward_arguments(p);
  args.forward.q = args.d_out = nullptr;
  const BackwardParamsSm90 params = filled(p, args);
  check_map(params.dk, args.dk, 4000, 64);
}

TEST_CASE("fused backward steps: the steps of a plan share one scratch, in order") {
  const AttentionProblem p = causal_gqa();
  const ScopedContext current(kInterpreterDevice);
  std::vector<Launch> launches;
  auto made = std::make_shared<Plan>();
  made->problem = {p, {}};
  made->device = kInterpreterDevice;
  made->scratch = std::make_shared<const ScratchPool>();
  for (const KernelPass pass : kPasses)
    made->add(step_of(p, pass, std::make_shared<RecordingKernel>("", launches)));
  const BackwardPlan plan(std::move(made));
  BackwardArgs args = backward_arguments(p);
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{13} << 34);
  plan.run(args);
  REQUIRE(launches.size() == 3);
  for (const Launch& launch : launches) CHECK(delta_of(launch) == args.workspace);
  CHECK(launches[0].params.size() == sizeof(BackwardParams));
  CHECK(launches[1].params.size() == sizeof(BackwardParamsSm90));
  CHECK(launches[2].params.size() == sizeof(BackwardParams));
  CHECK(text_of(launches[0].ranges) == "out:read d_out:read d_lse:read lse:read workspace:write");
  CHECK(text_of(launches[1].ranges) ==
        "q:read k:read v:read lse:read d_out:read dk:write dv:write workspace:read_write");
  CHECK(text_of(launches[2].ranges) == "dq:write workspace:read");
}
