// Entry point: gradients in parts, added.
#include "attention/rows/sum.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_sum_parts(FA2_KERNEL_PARAMETER(fa2::SumParams) params) {
  fa2::sum_parts<fa2::Config>(params);
}
