// Entry point of the sm90 forward kernel for head dims beyond 256.
#include "attention/forward/sm90/wide_kernel.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32 + 128, fa2::Config::ctas_per_sm)
fa2_attention_forward(FA2_KERNEL_PARAMETER(fa2::AttentionParamsSm90) params) {
  fa2::attention_forward_wide_sm90<fa2::Config>(params);
}
