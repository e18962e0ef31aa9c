// Entry point: new keys and values for a KV cache.
#include "attention/rows/append.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_append(FA2_KERNEL_PARAMETER(fa2::AppendParams) params) {
  fa2::append<fa2::Config>(params);
}
