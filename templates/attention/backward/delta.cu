// Entry point: delta, before the other backward kernels.
#include "attention/backward/delta.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_backward_delta(FA2_KERNEL_PARAMETER(fa2::BackwardParams) params) {
  fa2::backward_delta<fa2::Config>(params);
}
