// Entry point: dq_convert after the sm80 dq_dk_dv kernel.
#include "attention/backward/sm80/convert.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_backward_convert(FA2_KERNEL_PARAMETER(fa2::BackwardParams) params) {
  fa2::backward_convert_sm80<fa2::Config>(params);
}
