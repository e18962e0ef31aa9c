// Plain loads and stores. Each names its state space.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// 16 bytes between registers and memory.
struct Vector16 {
  u32 word[4];
};

FA2_DEVICE u32 ld_shared_u32(SharedAddress address) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

FA2_DEVICE void st_shared_u32(SharedAddress address, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

FA2_DEVICE float ld_shared_f32(SharedAddress address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

/// Loads two adjacent floats. `address` must be 8-byte aligned.
FA2_DEVICE void ld_shared_f32_x2(SharedAddress address, float (&value)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value[0]), "=f"(value[1]) : "r"(address) : "memory");
}

FA2_DEVICE Vector16 ld_shared_v4(SharedAddress address) {
  Vector16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

FA2_DEVICE void ld_shared_v4_f32(SharedAddress address, float (&value)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
               : "r"(address)
               : "memory");
}

FA2_DEVICE void st_shared_v4(SharedAddress address, const Vector16& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

FA2_DEVICE u16 ld_global_u16(const void* address) {
  u16 value;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
  return value;
}

/// Loads from memory that nothing writes while the kernel runs.
FA2_DEVICE float ld_global_f32(const float* address) {
  float value;
  asm("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(address));
  return value;
}

/// Like ld_global_f32(). Volatile, because the compiler must not move it before a check for null.
FA2_DEVICE int ld_global_s32(const int* address) {
  int value;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(address));
  return value;
}

/// Returns array[index], or `otherwise` if `array` is null. Has no branch, so that several such loads overlap.
FA2_DEVICE int ld_global_s32_or(const int* array, int index, int otherwise) {
  int value = otherwise;
  asm volatile("{\n  .reg .pred p;\n  setp.ne.u64 p, %1, 0;\n  @p ld.global.nc.s32 %0, [%2];\n}"
               : "+r"(value)
               : "l"(array), "l"(array + index));
  return value;
}

/// prefetch.global.L2: brings the line of 128 bytes that has `address` to L2, in the background.
FA2_DEVICE void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

FA2_DEVICE Vector16 ld_global_v4(const void* address) {
  Vector16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address)
               : "memory");
  return v;
}

FA2_DEVICE void ld_global_v4_f32(const float* address, float (&value)[4]) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
               : "l"(address)
               : "memory");
}

FA2_DEVICE void st_global_u16(void* address, u16 value) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

FA2_DEVICE void st_global_u8(void* address, u32 value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

FA2_DEVICE void st_global_u32(void* address, u32 value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

FA2_DEVICE void st_global_f32(void* address, float value) {
  asm volatile("st.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

FA2_DEVICE void st_global_v4(void* address, const Vector16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

}  // namespace fa2::ptx
