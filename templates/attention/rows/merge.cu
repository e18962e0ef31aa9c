// Entry point: merging attention outputs over disjoint keys.
#include "attention/rows/merge.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_merge(FA2_KERNEL_PARAMETER(fa2::MergeParams) params) {
  fa2::merge<fa2::Config>(params);
}
