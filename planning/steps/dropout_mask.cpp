// The launch of dropout_mask(): one thread per eight pairs of a query and a key.
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/dropout_mask.h>
#include <planning/step_request.h>

#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2 {
namespace {

std::int64_t in_blocks_of_16(std::int64_t rows) {
  return (rows + 15) / 16;
}

void fill_dropout_mask(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const DropoutMaskArgs& args = call.args.as<DropoutMaskArgs>();
  DropoutMaskParams& params = buffer.emplace(step.constants.as<DropoutMaskParams>());
  AttentionArgs attention;
  attention.dropout = args.dropout;
  add_call(params.attention, call.problem, attention);
  params.mask = args.mask;
}

}  // namespace

Step dropout_mask_step(const StepRequest& request) {
  const AttentionProblem& p = request.problem.as<AttentionProblem>();
  const std::int64_t threads =
      p.batch * p.heads_q * in_blocks_of_16(p.seqlen_q) * 8 * in_blocks_of_16(p.seqlen_k) * 4;
  DropoutMaskParams params{};
  params.attention = constants_of(p, request.config);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = blocks_for(threads, request.config)};
  step.constants.emplace(params);
  step.fill = fill_dropout_mask;
  return step;
}

}  // namespace fa2
