// Entry point: dK and dV for sm_80 and every later GPU.
#include "attention/backward/sm80/keys.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, fa2::Config::ctas_per_sm)
fa2_backward_keys(FA2_KERNEL_PARAMETER(fa2::BackwardParams) params) {
  fa2::backward_keys<fa2::Config>(params);
}
