// The launch of a sum: one thread per eight columns of a row.
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/step_request.h>
#include <planning/sum_parts.h>

#include <cstdint>
#include <templates/attention/rows/sum_params.cuh>

namespace fa2 {
namespace {

void fill_sum(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const SumArgs& args = call.args.as<SumArgs>();
  SumParams& params = buffer.emplace(step.constants.as<SumParams>());
  params.own = args.own;
  params.arrivals = args.arrivals;
  params.table = args.table;
  params.dk = args.dk;
  params.dv = args.dv;
  params.dk_strides = ref(args.dk_strides);
  params.dv_strides = ref(args.dv_strides);
}

}  // namespace

Step sum_parts_step(const StepRequest& request) {
  const SumProblem& p = request.problem.as<SumProblem>();
  SumParams params{};
  params.own_rows = p.own_rows;
  params.arrival_rows = p.arrival_rows;
  params.entries = static_cast<int>(p.entries);
  params.rows = static_cast<int>(p.rows);
  params.parts = static_cast<int>(p.parts);
  params.heads = static_cast<int>(p.heads);
  params.heads_v = static_cast<int>(p.heads_v);
  params.float32_sums = p.float32_sums;
  const std::int64_t threads = p.entries * p.rows * (p.row_floats() / 8);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = blocks_for(threads, request.config)};
  step.constants.emplace(params);
  step.fill = fill_sum;
  return step;
}

}  // namespace fa2
