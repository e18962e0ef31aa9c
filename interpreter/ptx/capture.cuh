// Accesses of texts of scores. An index outside a capture ends the launch.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

FA2_DEVICE int index_in(int index, int size, Site site = {}) {
  machine->check_index(index, size, site);
  return index;
}

FA2_DEVICE int position_in(int position, int length) {
  return position < length ? position : length > 0 ? length - 1 : 0;
}

FA2_DEVICE int position_in_tile(int position, int first) {
  return position < first ? first : position;
}

template <class Value>
FA2_DEVICE Value load_capture(const Value* address, Site site) {
  Value value;
  machine->load_global(address, &value, sizeof value, site);
  return value;
}

FA2_DEVICE float ld_capture(const float* address, Site site = {}) {
  return load_capture(address, site);
}
FA2_DEVICE int ld_capture(const int* address, Site site = {}) {
  return load_capture(address, site);
}
FA2_DEVICE i64 ld_capture(const i64* address, Site site = {}) {
  return load_capture(address, site);
}
FA2_DEVICE u32 ld_capture(const u16* address, Site site = {}) {
  return load_capture(address, site);
}
FA2_DEVICE u32 ld_capture(const unsigned char* address, Site site = {}) {
  return load_capture(address, site);
}

FA2_DEVICE u32 ld_staged_u16(SharedAddress address, Site site = {}) {
  u16 value;
  machine->load_shared(address, &value, 2, site);
  return value;
}
FA2_DEVICE u32 ld_staged_u32(SharedAddress address, Site site = {}) {
  u32 value;
  machine->load_shared(address, &value, 4, site);
  return value;
}
FA2_DEVICE float ld_staged_f32(SharedAddress address, Site site = {}) {
  float value;
  machine->load_shared(address, &value, 4, site);
  return value;
}

}  // namespace fa2::ptx
