// Entry point of the forward kernel for head dims beyond 256.
#include "attention/forward/sm80/wide_kernel.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, fa2::Config::ctas_per_sm)
fa2_attention_forward(FA2_KERNEL_PARAMETER(fa2::AttentionParamsSplit) params) {
  fa2::attention_forward_wide<fa2::Config>(params);
}
