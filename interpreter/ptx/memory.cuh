// Plain loads and stores. Each names its state space.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

struct Vector16 {
  u32 word[4];
};

FA2_DEVICE u32 ld_shared_u32(SharedAddress address, Site site = {}) {
  u32 value;
  machine->load_shared(address, &value, 4, site);
  return value;
}

FA2_DEVICE void st_shared_u32(SharedAddress address, u32 value, Site site = {}) {
  machine->store_shared(address, &value, 4, site);
}

FA2_DEVICE float ld_shared_f32(SharedAddress address, Site site = {}) {
  float value;
  machine->load_shared(address, &value, 4, site);
  return value;
}

FA2_DEVICE void ld_shared_f32_x2(SharedAddress address, float (&value)[2], Site site = {}) {
  machine->load_shared(address, value, 8, site);
}

FA2_DEVICE Vector16 ld_shared_v4(SharedAddress address, Site site = {}) {
  Vector16 v;
  machine->load_shared(address, &v, 16, site);
  return v;
}

FA2_DEVICE void ld_shared_v4_f32(SharedAddress address, float (&value)[4], Site site = {}) {
  machine->load_shared(address, value, 16, site);
}

FA2_DEVICE void st_shared_v4(SharedAddress address, const Vector16& v, Site site = {}) {
  machine->store_shared(address, &v, 16, site);
}

/// Reads a byte, as a check of the address.
FA2_DEVICE void prefetch_l2(const void* address, Site site = {}) {
  char byte;
  machine->load_global(address, &byte, 1, site);
}

FA2_DEVICE u16 ld_global_u16(const void* address, Site site = {}) {
  u16 value;
  machine->load_global(address, &value, 2, site);
  return value;
}

FA2_DEVICE float ld_global_f32(const float* address, Site site = {}) {
  float value;
  machine->load_global(address, &value, 4, site);
  return value;
}

FA2_DEVICE int ld_global_s32(const int* address, Site site = {}) {
  int value;
  machine->load_global(address, &value, 4, site);
  return value;
}

FA2_DEVICE int ld_global_s32_or(const int* array, int index, int otherwise, Site site = {}) {
  return array == nullptr ? otherwise : ld_global_s32(array + index, site);
}

FA2_DEVICE Vector16 ld_global_v4(const void* address, Site site = {}) {
  Vector16 v;
  machine->load_global(address, &v, 16, site);
  return v;
}

FA2_DEVICE void ld_global_v4_f32(const float* address, float (&value)[4], Site site = {}) {
  machine->load_global(address, value, 16, site);
}

FA2_DEVICE void st_global_u16(void* address, u16 value, Site site = {}) {
  machine->store_global(address, &value, 2, site);
}

FA2_DEVICE void st_global_u8(void* address, u32 value, Site site = {}) {
  const unsigned char byte = static_cast<unsigned char>(value);
  machine->store_global(address, &byte, 1, site);
}

FA2_DEVICE void st_global_u32(void* address, u32 value, Site site = {}) {
  machine->store_global(address, &value, 4, site);
}

FA2_DEVICE void st_global_f32(void* address, float value, Site site = {}) {
  machine->store_global(address, &value, 4, site);
}

FA2_DEVICE void st_global_v4(void* address, const Vector16& v, Site site = {}) {
  machine->store_global(address, &v, 16, site);
}

}  // namespace fa2::ptx
