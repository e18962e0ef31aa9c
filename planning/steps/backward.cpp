// The launches of the backward kernels on mma.sync, and what all backward kernels share.
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/backward.h>
#include <planning/steps/backward.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace fa2 {
namespace backward_steps {
namespace {

void add_reads(std::vector<OperandUse>& uses, std::initializer_list<Role> roles) {
  for (const Role role : roles) uses.push_back({role, Access::read});
}

std::vector<OperandUse> uses_of(KernelPass pass) {
  std::vector<OperandUse> uses;
  add_reads(uses, {Role::cu_seqlens_q, Role::cu_seqlens_k, Role::seqused_q, Role::seqused_k});
  if (pass == KernelPass::delta) {
    add_reads(uses, {Role::out, Role::d_out, Role::d_lse, Role::lse});
    return uses;
  }
  if (pass == KernelPass::dq_convert) {
    uses.push_back({Role::dq, Access::write});
    return uses;
  }
  if (pass == KernelPass::d_sinks) {
    add_reads(uses, {Role::lse});
  } else {
    add_reads(uses,
              {Role::q, Role::k, Role::v, Role::lse, Role::d_out, Role::dropout_state, Role::query_pieces});
  }
  for (std::size_t i = 0; i < kOperandCount; ++i)
    if (has_numbers(static_cast<Role>(i))) uses.push_back({static_cast<Role>(i), Access::read});
  if (pass == KernelPass::d_sinks) uses.push_back({Role::d_sinks, Access::write});
  if (pass == KernelPass::dq) uses.push_back({Role::dq, Access::write});
  if (owns_keys(pass) && pass != KernelPass::dv) uses.push_back({Role::dk, Access::write});
  if (owns_keys(pass) && pass != KernelPass::dk) uses.push_back({Role::dv, Access::write});
  return uses;
}

Access access_of_scratch(KernelPass pass) {
  if (pass == KernelPass::delta) return Access::write;
  return sums_dq(pass) ? Access::read_write : Access::read;
}

std::int64_t most_blocks(const AttentionProblem& p, const KernelConfig& config) {
  const KernelPass pass = pass_of(config);
  if (pass == KernelPass::d_sinks) return p.heads_q;
  return owns_keys(pass) ? most_key_tiles(p, config) : most_query_tiles(p, config);
}

}  // namespace

Step of_tiles(const StepRequest& request, std::size_t offset) {
  const AttentionProblem& problem = request.problem.as<AttentionProblem>();
  const KernelPass pass = pass_of(request.config);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  const std::int64_t merge_blocks = pass == KernelPass::dq_convert ? request.scratch.merge_blocks() : 0;
  const bool has_parts = sums_dq(pass) && request.scratch.parts.count > 1;
  const std::int64_t blocks =
      has_parts ? request.scratch.part_blocks() : merge_blocks + most_blocks(problem, request.config);
  const KernelKind& kind = kind_of(request.config);
  const auto cluster = static_cast<std::uint32_t>(kind.cluster(traits_of({problem, {}})));
  step.shape = {.grid = static_cast<std::uint32_t>(blocks) * cluster,
                .cluster = cluster,
                .begins_early = kind.begins_early};
  step.uses = uses_of(pass);
  if (merge_blocks > 0)
    step.uses.insert(step.uses.end(), {{Role::dk, Access::write}, {Role::dv, Access::write}});
  if (pass != KernelPass::dv)
    step.scratch = {.bytes = request.scratch.bytes(problem),
                    .param = offset + offsetof(BackwardParams, delta),
                    .access = access_of_scratch(pass)};
  return step;
}

BackwardParams constants_of(const StepRequest& request) {
  const AttentionProblem& p = request.problem.as<AttentionProblem>();
  const BackwardScratch& scratch = request.scratch;
  BackwardParams params{};
  params.attention = fa2::constants_of(p, request.config);
  params.k_tiles = static_cast<int>((p.seqlen_k + request.config.tile_m - 1) / request.config.tile_m);
  params.kv_head_count = static_cast<int>(p.batch * p.heads_kv);
  params.heads_kv = static_cast<int>(p.heads_kv);
  params.sections = head_sections(p, p.heads_kv, kv_heads_per_section(p, request.config), params.k_tiles);
  params.statistic_rows = static_cast<int>(scratch.statistic_rows);
  params.sum_tile = static_cast<int>(scratch.sum_tile);
  params.statistic_count = scratch.sum_cols > 0 ? scratch.statistics(p) : 0;
  params.parts = divisor_of(static_cast<unsigned>(scratch.parts.count));
  params.part_tiles = divisor_of(static_cast<unsigned>(scratch.parts.section_tiles));
  params.part_steps = static_cast<int>(scratch.parts.steps);
  params.part_floats = static_cast<int>(scratch.part_floats);
  params.part_start = scratch.part_start(p);
  params.part_rows = static_cast<int>(scratch.part_rows);
  params.merge_blocks = static_cast<unsigned>(scratch.merge_blocks());
  return params;
}

void add_call(BackwardParams& params, const Call& call) {
  const BackwardArgs& args = call.args.as<BackwardArgs>();
  fa2::add_call(params.attention, call.problem, args.forward);
  params.d_o = args.d_out;
  params.d_lse = args.d_lse;
  params.dq = args.dq;
  params.dk = args.dk;
  params.dv = args.dv;
  params.d_sinks = args.d_sinks;
  params.d_o_strides = ref(args.d_out_strides);
  params.dq_strides = ref(args.dq_strides);
  params.dk_strides = ref(args.dk_strides);
  params.dv_strides = ref(args.dv_strides);
}

}  // namespace backward_steps

Step backward_sm80_step(const StepRequest& request) {
  Step step = backward_steps::of_tiles(request, 0);
  step.constants.emplace(backward_steps::constants_of(request));
  step.fill = [](const Step& filled, const Call& call, ParamsBuffer& buffer) {
    backward_steps::add_call(buffer.emplace(filled.constants.as<BackwardParams>()), call);
  };
  return step;
}

}  // namespace fa2
