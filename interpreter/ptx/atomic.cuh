// Atomic operations on global memory, atomic among the host threads that run blocks.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE u32 atom_add_global_u32(u32* address, u32 value, Site site = {}) {
  return machine->atomic_add(address, value, site);
}

FA2_DEVICE u32 atom_inc_global_u32(u32* address, u32 limit, Site site = {}) {
  return machine->atomic_inc(address, limit, site);
}

FA2_DEVICE void red_add_global_i64(i64* address, i64 value, Site site = {}) {
  machine->atomic_add(address, value, site);
}

FA2_DEVICE void red_add_global_f32(float* address, float value, Site site = {}) {
  machine->atomic_add(address, value, site);
}

FA2_DEVICE void red_add_global_v4_f32(float* address, const float (&value)[4], Site site = {}) {
  machine->atomic_add_v4(address, value, site);
}

FA2_DEVICE void red_max_global_f32(float* address, float value, Site site = {}) {
  machine->atomic_max(address, value, site);
}

}  // namespace fa2::ptx
