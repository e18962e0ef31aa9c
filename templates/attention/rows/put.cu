// Entry point: messages to other ranks.
#include "attention/rows/put.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_put_messages(FA2_KERNEL_PARAMETER(fa2::PutParams) params) {
  fa2::put_messages<fa2::Config>(params);
}
