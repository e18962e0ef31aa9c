// Read-modify-writes of global memory, relaxed: they order nothing.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// atom.add: the value before.
FA2_DEVICE u32 atom_add_global_u32(u32* address, u32 value) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(value)
               : "memory");
  return old;
}

/// atom.inc: the value before; past `limit` it starts at 0 again.
FA2_DEVICE u32 atom_inc_global_u32(u32* address, u32 limit) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(limit)
               : "memory");
  return old;
}

FA2_DEVICE void red_add_global_f32(float* address, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

}  // namespace fa2::ptx
