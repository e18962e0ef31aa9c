// The arithmetic of a backward's launches.
#include <generator/kernels/backward_sm90.h>
#include <generator/sequences.h>
#include <planning/attention_params.h>
#include <planning/backward_step.h>
#include <planning/tensor_maps.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <templates/attention/common/params.cuh>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

bool owns_keys(KernelPass pass) {
  return pass == KernelPass::dk_dv || pass == KernelPass::dk || pass == KernelPass::dv || sums_dq(pass);
}

/// Key/value heads whose tiles are interleaved: those whose queries, dO and sums of dQ stay in L2 while all their tiles go
/// over them. Of the kernels on mma.sync that sum nothing, which are slow enough to wait for memory, as many as of the forward.
int kv_heads_per_section(const AttentionProblem& p, const KernelConfig& config,
                         const AttentionParams& attention) {
  const int most = std::max(1, attention.heads_per_section / attention.queries_per_kv);
  const std::int64_t section_bytes = kind_of(config).section_bytes;
  if (section_bytes == 0 || most == 1) return most;
  const std::int64_t head_bytes =
      std::max<std::int64_t>(1, attention.queries_per_kv * p.seqlen_q * (6 * p.head_dim + 2 * p.head_dim_v));
  return static_cast<int>(std::clamp<std::int64_t>(section_bytes / head_bytes, 1, most));
}

BackwardParams backward_constants(const AttentionProblem& p, const KernelConfig& config,
                                  const BackwardScratch& scratch) {
  BackwardParams params{};
  params.attention = constants_of(p, config);
  params.k_tiles = static_cast<int>((p.seqlen_k + config.tile_m - 1) / config.tile_m);
  params.kv_head_count = static_cast<int>(p.batch * p.heads_kv);
  params.heads_kv = static_cast<int>(p.heads_kv);
  params.kv_heads_per_section = kv_heads_per_section(p, config, params.attention);
  params.statistic_rows = static_cast<int>(scratch.statistic_rows);
  params.sum_tile = static_cast<int>(scratch.sum_tile);
  params.statistic_count = scratch.sum_cols > 0 ? scratch.statistics(p) : 0;
  return params;
}

/// All but delta, which is the workspace.
void add_call(BackwardParams& params, const Call& call) {
  const BackwardArgs& args = *call.backward;
  add_call(params.attention, call.problem, call.args);
  params.d_o = args.d_o;
  params.d_lse = args.d_lse;
  params.dq = args.dq;
  params.dk = args.dk;
  params.dv = args.dv;
  params.d_sinks = args.d_sinks;
  params.d_o_strides = ref(args.d_o_strides);
  params.dq_strides = ref(args.dq_strides);
  params.dk_strides = ref(args.dk_strides);
  params.dv_strides = ref(args.dv_strides);
}

void fill(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<BackwardParams>()), call);
}

void fill_sm90(const Step& step, const Call& call, ParamsBuffer& buffer) {
  BackwardParamsSm90& params = buffer.emplace(step.constants.as<BackwardParamsSm90>());
  add_call(params.backward, call);
  fill_tensor_maps(call.problem, step.config, call.operands, params);
}

void add_reads(std::vector<OperandUse>& uses, std::initializer_list<Role> roles) {
  for (const Role role : roles) uses.push_back({role, Access::read});
}

std::vector<OperandUse> uses_of(KernelPass pass) {
  std::vector<OperandUse> uses;
  add_reads(uses, {Role::cu_seqlens_q, Role::cu_seqlens_k, Role::seqused_q, Role::seqused_k});
  if (pass == KernelPass::delta) {
    add_reads(uses, {Role::o, Role::d_o, Role::d_lse, Role::lse});
    return uses;
  }
  if (pass == KernelPass::dq_convert) {
    uses.push_back({Role::dq, Access::write});
    return uses;
  }
  if (pass == KernelPass::d_sinks) {
    add_reads(uses, {Role::lse});
  } else {
    add_reads(uses, {Role::q, Role::k, Role::v, Role::lse, Role::d_o, Role::dropout_state});
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

/// A head's sum is one block's.
std::int64_t most_blocks(const AttentionProblem& p, const KernelConfig& config) {
  const KernelPass pass = pass_of(config);
  if (pass == KernelPass::d_sinks) return p.heads_q;
  return owns_keys(pass) ? most_key_tiles(p, config) : most_query_tiles(p, config);
}

}  // namespace

std::int64_t BackwardScratch::statistics(const AttentionProblem& p) const {
  constexpr std::int64_t kWhole = kWorkspaceAlignment / 4;
  return (q_entries(p).count * p.heads_q * statistic_rows + kWhole - 1) / kWhole * kWhole;
}

std::size_t BackwardScratch::bytes(const AttentionProblem& p) const {
  const std::int64_t count = statistics(p), sums = q_entries(p).count * p.heads_q * statistic_rows * sum_cols;
  return whole_part(static_cast<std::size_t>(4 * (count + (sum_cols > 0 ? 2 * count + sums : 0))));
}

BackwardScratch scratch_for(const AttentionProblem& p) {
  return {.statistic_rows = q_entries(p).rows};
}

BackwardScratch scratch_for(const AttentionProblem& p, const KernelConfig& summing) {
  const std::int64_t tile = summing.tile_n;
  const std::int64_t tiles = p.total_q > 0 ? p.total_q / tile + p.batch : (p.seqlen_q + tile - 1) / tile;
  return {.statistic_rows = tiles * tile,
          .sum_tile = tile,
          .sum_cols = backward_sm90::sum_cols(traits_of({p, {}}))};
}

bool has_tiles(const AttentionProblem& p, KernelPass pass) {
  if (pass == KernelPass::d_sinks) return p.batch > 0;
  return p.batch > 0 && (owns_keys(pass) ? p.seqlen_k : p.seqlen_q) > 0;
}

Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel, const BackwardScratch& scratch) {
  const KernelPass pass = pass_of(config);
  const BackwardParams constants = backward_constants(problem, config, scratch);
  Step step;
  step.kernel = std::move(kernel);
  step.config = config;
  step.shape = {.grid = static_cast<std::uint32_t>(most_blocks(problem, config))};
  step.uses = uses_of(pass);
  std::size_t delta = offsetof(BackwardParams, delta);
  if (kind_of(config).params == KernelParams::backward_sm90) {
    BackwardParamsSm90 params{};
    params.backward = constants;
    step.constants.emplace(params);
    step.fill = fill_sm90;
    delta += offsetof(BackwardParamsSm90, backward);
  } else {
    step.constants.emplace(constants);
    step.fill = fill;
  }
  if (pass != KernelPass::dv)
    step.workspace = {.bytes = scratch.bytes(problem),
                      .is_scratch = true,
                      .access = access_of_scratch(pass),
                      .param = delta};
  return step;
}

}  // namespace fa2
