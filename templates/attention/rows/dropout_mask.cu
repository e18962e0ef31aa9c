// Entry point: the dropout mask, for tests.
#include "attention/rows/dropout_mask.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_dropout_mask(FA2_KERNEL_PARAMETER(fa2::DropoutMaskParams) params) {
  fa2::dropout_mask<fa2::Config>(params);
}
