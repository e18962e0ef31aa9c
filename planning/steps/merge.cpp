// The launch of merge(): one thread per eight columns of a row.
#include <fa2/merge.h>
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/step_request.h>

#include <cstdint>
#include <templates/attention/rows/merge_params.cuh>

namespace fa2 {
namespace {

MergeParams constants_of(const MergeProblem& p) {
  MergeParams params{};
  params.rows = p.batch * p.heads * p.seqlen;
  params.part_count = static_cast<int>(p.parts);
  params.heads = static_cast<int>(p.heads);
  params.seqlen = static_cast<int>(p.seqlen);
  params.float32_parts = p.float32_parts;
  params.float32_output = p.float32_output;
  return params;
}

void fill_merge(const Step& step, const Call& call, ParamsBuffer& buffer) {
  const MergeArgs& args = call.args.as<MergeArgs>();
  MergeParams& params = buffer.emplace(step.constants.as<MergeParams>());
  params.parts = args.parts;
  params.lse_parts = args.lse_parts;
  params.o = args.out;
  params.lse = args.lse;
  params.part_stride = args.part_stride;
  params.lse_part_stride = args.lse_part_stride;
  params.parts_strides = ref(args.parts_strides);
  params.lse_strides = ref(args.lse_parts_strides);
  params.o_strides = ref(args.out_strides);
  params.empty_row_lse = value_of(args.empty_row_lse);
}

}  // namespace

Step merge_step(const StepRequest& request) {
  const MergeProblem& p = request.problem.as<MergeProblem>();
  const MergeParams params = constants_of(p);
  const std::int64_t threads = params.rows * (p.head_dim / 8);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  step.shape = {.grid = blocks_for(threads, request.config)};
  step.constants.emplace(params);
  step.fill = fill_merge;
  return step;
}

}  // namespace fa2
