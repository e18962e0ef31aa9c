// Atomic operations on global memory. Unless the name says otherwise, they are relaxed and order nothing.
#pragma once

#include "ptx/keywords.cuh"
#include "ptx/math.cuh"

namespace fa2::ptx {

/// atom.add: returns the old value.
FA2_DEVICE u32 atom_add_global_u32(u32* address, u32 value) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(value)
               : "memory");
  return old;
}

/// atom.inc: returns the old value. After `limit` the counter restarts at 0.
FA2_DEVICE u32 atom_inc_global_u32(u32* address, u32 limit) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(limit)
               : "memory");
  return old;
}

FA2_DEVICE void red_add_global_i64(i64* address, i64 value) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

FA2_DEVICE void red_add_global_f32(float* address, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

/// red.add.v4 (sm_90): adds to four adjacent floats, each atomically. `address` must be 16-byte aligned.
FA2_DEVICE void red_add_global_v4_f32(float* address, const float (&value)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
               "f"(value[1]), "f"(value[2]), "f"(value[3])
               : "memory");
}

/// Raises a float that is not NaN. Two instructions on integers, because red.max has no floats: those above 0 order as signed
/// integers, and those below in reverse as unsigned ones. `value` must not be NaN.
FA2_DEVICE void red_max_global_f32(float* address, float value) {
  const u32 bits = bits_of(value + 0.0f);  // turns -0 into 0
  if (value >= 0.0f) {
    asm volatile("red.relaxed.gpu.global.max.s32 [%0], %1;" ::"l"(address), "r"(bits) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.min.u32 [%0], %1;" ::"l"(address), "r"(bits) : "memory");
  }
}

}  // namespace fa2::ptx
