// Accesses of texts of scores.
#pragma once

#include "machine/types.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// Returns the index, or some index in [0, size) for one outside, so that a text cannot read beyond a capture.
FA2_DEVICE int index_in(int index, int size) {
  const u32 last = static_cast<u32>(size) - 1;
  return static_cast<int>(static_cast<u32>(index) < last ? static_cast<u32>(index) : last);
}

/// Returns the position of a score. Kernels evaluate texts at positions beyond a length too, which hide what comes of it. The
/// interpreter leaves these out, so that an index outside is the text's mistake.
FA2_DEVICE int position_in(int position, int) {
  return position;
}

/// Returns a position_in() of a tile that begins at `first`. On the interpreter, one beyond a length may lie before a tile that begins
/// there.
FA2_DEVICE int position_in_tile(int position, int) {
  return position;
}

// Loads from memory that nothing writes while the kernel runs. The compiler may merge and move them.

FA2_DEVICE float ld_capture(const float* address) {
  float value;
  asm("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(address));
  return value;
}
FA2_DEVICE int ld_capture(const int* address) {
  int value;
  asm("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(address));
  return value;
}
FA2_DEVICE i64 ld_capture(const i64* address) {
  i64 value;
  asm("ld.global.nc.s64 %0, [%1];" : "=l"(value) : "l"(address));
  return value;
}
FA2_DEVICE u32 ld_capture(const u16* address) {
  u16 value;
  asm("ld.global.nc.u16 %0, [%1];" : "=h"(value) : "l"(address));
  return value;
}
FA2_DEVICE u32 ld_capture(const unsigned char* address) {
  u32 value;
  asm("ld.global.nc.u8 %0, [%1];" : "=r"(value) : "l"(address));
  return value;
}

// Loads from shared memory that nothing writes between the renewed() that made the address and the hold() of what follows from the
// values. The compiler may merge and move them in between.

FA2_DEVICE u32 ld_staged_u16(SharedAddress address) {
  u16 value;
  asm("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address));
  return value;
}
FA2_DEVICE u32 ld_staged_u32(SharedAddress address) {
  u32 value;
  asm("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}
FA2_DEVICE float ld_staged_f32(SharedAddress address) {
  float value;
  asm("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}

}  // namespace fa2::ptx
