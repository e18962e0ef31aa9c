// Entry point: keys and values of 8 bits, in 16.
#include "attention/rows/widen.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_widen(FA2_KERNEL_PARAMETER(fa2::WidenParams) params) {
  fa2::widen_keys<fa2::Config>(params);
}
