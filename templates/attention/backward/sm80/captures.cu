// Entry point: gradients of captured tensors for sm_80 and every later GPU.
#include "attention/backward/sm80/captures.cuh"
#include "attention/backward/sm80/queries.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, fa2::Config::ctas_per_sm)
fa2_backward_captures(FA2_KERNEL_PARAMETER(fa2::CaptureGradientParams) params) {
  if (params.kind == fa2::CaptureSums::rounded)
    fa2::round_capture_sums<fa2::score::FollowedText::capture_count>(params.backward.attention, params,
                                                                     32 * fa2::Config::warps);
  else
    fa2::backward_queries<fa2::Config, fa2::CaptureGradients>(params.backward, params);
}
