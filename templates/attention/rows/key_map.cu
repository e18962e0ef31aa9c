// Entry point: the map of the KV blocks that the text of a mask shows.
#include "attention/rows/key_map.cuh"
#include "config.cuh"

FA2_KERNEL(fa2::Config::warps * 32, 1)
fa2_key_map(FA2_KERNEL_PARAMETER(fa2::KeyMapKernelParams) params) {
  fa2::make_key_map<fa2::Config>(params.attention);
}
