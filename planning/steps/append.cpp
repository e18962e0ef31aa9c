// The launch of append(): one thread per eight columns of a row.
#include <generator/kernels/launch_steps.h>
#include <planning/append.h>
#include <planning/attention_params.h>
#include <planning/step_request.h>

#include <cstdint>
#include <templates/attention/rows/append_params.cuh>

namespace fa2 {
namespace {

int narrow(std::int64_t size) {
  return static_cast<int>(size);
}

AppendParams constants_of(const AppendProblem& p) {
  AppendParams params{};
  params.new_rows = {nullptr, narrow(p.batch), narrow(p.heads_kv), narrow(p.seqlen_new),
                     narrow(new_rows_of(p) * p.heads_kv)};
  params.queries = {nullptr, narrow(p.batch), narrow(p.heads_q), narrow(p.seqlen_q),
                    narrow(queries_of(p) * p.heads_q)};
  params.cache.entry_count = narrow(p.cache_entries);
  params.cache.entry_rows = narrow(entry_rows_of(p));
  params.cache.capacity = narrow(capacity_of(p));
  params.rotary.rows = narrow(p.table_rows);
  params.rotary.dim = p.rotary_dim;
  params.rotary.interleaved = p.rotary_style == RotaryStyle::interleaved;
  params.rotary.are_float32 = p.float32_tables;
  params.causal_positions = p.causal_positions;
  return params;
}

void fill_append(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const AppendArgs& args = call.args.as<AppendArgs>();
  AppendParams& params = buffer.emplace(step.constants.as<AppendParams>());
  params.k = {args.k_new, args.k_cache, ref(args.k_new_strides), ref(args.k_cache_strides),
              factors_of(args.k_descale, args.k_descale_strides)};
  params.v = {args.v_new, args.v_cache, ref(args.v_new_strides), ref(args.v_cache_strides),
              factors_of(args.v_descale, args.v_descale_strides)};
  params.q = {args.q, args.q_out, ref(args.q_strides), ref(args.q_out_strides), {}};
  params.new_rows.borders = args.cu_seqlens_new;
  params.queries.borders = args.cu_seqlens_q;
  params.cache.seqlens = args.seqlens;
  params.cache.entries = args.cache_batch_idx;
  params.cache.page_table = args.page_table;
  params.cache.page_table_stride = args.page_table_stride;
  params.rotary.cos = args.cos;
  params.rotary.sin = args.sin;
  params.rotary.first = args.rotary_seqlens != nullptr ? args.rotary_seqlens : args.seqlens;
  params.rotary.stride = args.table_stride;
}

}  // namespace

Step append_step(const StepRequest& request) {
  const AppendProblem& p = request.problem.as<AppendProblem>();
  const AppendParams params = constants_of(p);
  const std::int64_t threads = params.new_rows.count * std::int64_t{(p.head_dim + value_dim_of(p)) / 8} +
                               params.queries.count * std::int64_t{p.head_dim / 8};
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = blocks_for(threads, request.config), .begins_early = true};
  step.constants.emplace(params);
  step.fill = fill_append;
  return step;
}

}  // namespace fa2
