// The launch that makes a map: a thread block per eight KV blocks of a tile, or per 32 (templates/attention/rows/key_map.cuh).
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <generator/kernels/launch_steps.h>
#include <planning/attention_params.h>
#include <planning/step_request.h>
#include <planning/text_params.h>

#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2 {
namespace {

void fill_key_map(const Step& step, const Call& call, ParamsBuffer& buffer) {
  KeyMapKernelParams& params = buffer.emplace(step.constants.as<KeyMapKernelParams>());
  add_call(params.attention, call.problem, attention_args_of(call));
}

}  // namespace

Step key_map_step(const StepRequest& request) {
  const AttentionProblem& p = request.problem.as<AttentionProblem>();
  KernelConfig of_forward = request.config;
  of_forward.kernel = KernelId::forward_sm80;  // so that heads share tiles as they do there
  KeyMapKernelParams params{};
  params.attention = constants_of(p, of_forward);
  Step step;
  step.kernel = request.kernel;
  step.config = request.config;
  set_texts(step, p);
  const std::int64_t parts = mask_has_ranges(score_texts(p.score_text)) ? 1 : 4;  // of a word
  step.shape = {.grid = static_cast<std::uint32_t>(step.texts.map.rows() * step.texts.map.words * parts)};
  step.uses = {{Role::cu_seqlens_q, Access::read},
               {Role::cu_seqlens_k, Access::read},
               {Role::seqused_q, Access::read},
               {Role::seqused_k, Access::read},
               {Role::query_pieces, Access::read}};
  step.constants.emplace(params);
  step.fill = fill_key_map;
  return step;
}

}  // namespace fa2
