// Entry point: the gradient of the sinks, after delta.
#include "attention/backward/sinks.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_backward_sinks(FA2_KERNEL_PARAMETER(fa2::BackwardParams) params) {
  fa2::backward_sinks<fa2::Config>(params);
}
