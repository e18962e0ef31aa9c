// Entry point of the forward kernel for sm_80 and every later GPU.
#include "attention/forward/sm80/kernel.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, fa2::Config::ctas_per_sm)
fa2_attention_forward(FA2_KERNEL_PARAMETER(fa2::AttentionParamsSm80) params) {
  fa2::attention_forward<fa2::Config>(params);
}
