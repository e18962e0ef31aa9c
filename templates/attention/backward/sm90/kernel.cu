// Entry point: dQ, dK and dV for Hopper.
#include "attention/backward/sm90/kernel.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32 + 128, fa2::Config::ctas_per_sm)
fa2_backward(FA2_KERNEL_PARAMETER(fa2::BackwardParamsSm90) params) {
  fa2::backward_sm90<fa2::Config>(params);
}
