// Plain loads and stores of 8 bytes.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// 8 bytes between registers and memory.
struct Vector8 {
  u32 word[2];
};

FA2_DEVICE Vector8 ld_global_v2(const void* address) {
  Vector8 v;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "l"(address)
               : "memory");
  return v;
}

FA2_DEVICE void st_global_v2(void* address, const Vector8& v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(v.word[0]), "r"(v.word[1]) : "memory");
}

FA2_DEVICE Vector8 ld_shared_v2(SharedAddress address) {
  Vector8 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "r"(address)
               : "memory");
  return v;
}

FA2_DEVICE void st_shared_v2(SharedAddress address, const Vector8& v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(v.word[0]), "r"(v.word[1]) : "memory");
}

}  // namespace fa2::ptx
