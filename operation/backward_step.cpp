// The arithmetic of a backward's launches.
#include <operation/attention_params.h>
#include <operation/backward_step.h>

#include <cstddef>
#include <templates/attention/params.cuh>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

KernelPass pass_of(const KernelConfig& config) {
  return static_cast<KernelPass>(config.pass);
}

bool owns_keys(KernelPass pass) {
  return pass == KernelPass::dk_dv || pass == KernelPass::dk || pass == KernelPass::dv;
}

BackwardParams backward_constants(const AttentionProblem& p, const KernelConfig& config) {
  BackwardParams params{};
  params.attention = constants_of(p, config);
  params.k_tiles = static_cast<int>((p.seqlen_k + config.tile_m - 1) / config.tile_m);
  params.kv_head_count = static_cast<int>(p.batch * p.heads_kv);
  params.heads_kv = static_cast<int>(p.heads_kv);
  params.kv_heads_per_section = params.attention.heads_per_section / params.attention.queries_per_kv;
  if (params.kv_heads_per_section < 1) params.kv_heads_per_section = 1;
  return params;
}

/// All but delta, which is the workspace.
void fill(const Step& step, const Call& call, ParamsBuffer& buffer) {
  BackwardParams& params = buffer.emplace(step.constants.as<BackwardParams>());
  const BackwardArgs& args = *call.backward;
  add_call(params.attention, call.problem, call.args);
  params.d_o = args.d_o;
  params.d_lse = args.d_lse;
  params.dq = args.dq;
  params.dk = args.dk;
  params.dv = args.dv;
  params.d_o_strides = ref(args.d_o_strides);
  params.dq_strides = ref(args.dq_strides);
  params.dk_strides = ref(args.dk_strides);
  params.dv_strides = ref(args.dv_strides);
}

std::vector<OperandUse> uses_of(KernelPass pass) {
  if (pass == KernelPass::delta)
    return {{Role::o, Access::read}, {Role::d_o, Access::read}, {Role::d_lse, Access::read}};
  std::vector<OperandUse> uses;
  for (const Role role : {Role::q, Role::k, Role::v, Role::lse, Role::d_o})
    uses.push_back({role, Access::read});
  for (std::size_t i = static_cast<std::size_t>(Role::variants); i < kOperandCount; ++i)
    uses.push_back({static_cast<Role>(i), Access::read});
  if (pass == KernelPass::dq) uses.push_back({Role::dq, Access::write});
  if (pass == KernelPass::dk_dv || pass == KernelPass::dk) uses.push_back({Role::dk, Access::write});
  if (pass == KernelPass::dk_dv || pass == KernelPass::dv) uses.push_back({Role::dv, Access::write});
  return uses;
}

}  // namespace

std::size_t delta_bytes(const AttentionProblem& p) {
  return whole_part(static_cast<std::size_t>(4 * p.batch * p.heads_q * p.seqlen_q));
}

bool has_tiles(const AttentionProblem& p, KernelPass pass) {
  return p.batch > 0 && (owns_keys(pass) ? p.seqlen_k : p.seqlen_q) > 0;
}

Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel) {
  const KernelPass pass = pass_of(config);
  const BackwardParams constants = backward_constants(problem, config);
  const AttentionParams& attention = constants.attention;
  const std::int64_t tiles = owns_keys(pass) ? std::int64_t{constants.k_tiles} * constants.kv_head_count
                                             : std::int64_t{attention.q_tiles} * attention.head_count;
  Step step;
  step.kernel = std::move(kernel);
  step.config = config;
  step.shape = {static_cast<std::uint32_t>(tiles)};
  step.uses = uses_of(pass);
  step.constants.emplace(constants);
  step.fill = fill;
  if (pass != KernelPass::dv)
    step.workspace = {.bytes = delta_bytes(problem),
                      .is_scratch = true,
                      .access = pass == KernelPass::delta ? Access::write : Access::read,
                      .param = offsetof(BackwardParams, delta)};
  return step;
}

}  // namespace fa2
