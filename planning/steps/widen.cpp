// The launch that widens 8-bit keys and values: one thread per 16 columns of a row.
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/step_request.h>
#include <planning/widened_keys.h>

#include <cstddef>
#include <cstdint>
#include <templates/attention/rows/widen_params.cuh>

namespace fa2 {
namespace {

void fill_widen(const Step& step, const Call& call, ParamsBuffer& buffer) {
  WidenParams& params = buffer.emplace(step.constants.as<WidenParams>());
  add_call(params.attention, call.problem, call.args.as<AttentionArgs>());
  params.values = call.scratch + widened_layout(call.problem).values;
}

}  // namespace

Step widen_step(const StepRequest& request) {
  const AttentionProblem& p = request.problem.as<AttentionProblem>();
  const WidenedLayout layout = widened_layout(p);
  WidenParams params{};
  params.attention = constants_of(p, request.config);
  params.entries = static_cast<int>(layout.entries);
  params.rows = static_cast<int>(layout.rows);
  params.heads = static_cast<int>(p.heads_kv);
  const std::int64_t threads = layout.entries * layout.rows * p.heads_kv * ((p.head_dim + p.head_dim_v) / 16);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = blocks_for(threads, request.config), .begins_early = true};
  step.uses = {{Role::k, Access::read}, {Role::v, Access::read}};
  if (p.page_size > 0)
    step.uses.insert(step.uses.end(), {{Role::page_table, Access::read},
                                       {Role::seqused_k, Access::read},
                                       {Role::cu_seqlens_q, Access::read},
                                       {Role::seqused_q, Access::read}});
  step.scratch = {.bytes = layout.bytes, .param = offsetof(WidenParams, keys), .access = Access::write};
  step.constants.emplace(params);
  step.fill = fill_widen;
  return step;
}

}  // namespace fa2
