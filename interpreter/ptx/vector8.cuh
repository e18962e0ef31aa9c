// Plain loads and stores of 8 bytes.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

struct Vector8 {
  u32 word[2];
};

FA2_DEVICE Vector8 ld_global_v2(const void* address, Site site = {}) {
  Vector8 v;
  machine->load_global(address, &v, 8, site);
  return v;
}

FA2_DEVICE void st_global_v2(void* address, const Vector8& v, Site site = {}) {
  machine->store_global(address, &v, 8, site);
}

FA2_DEVICE Vector8 ld_shared_v2(SharedAddress address, Site site = {}) {
  Vector8 v;
  machine->load_shared(address, &v, 8, site);
  return v;
}

FA2_DEVICE void st_shared_v2(SharedAddress address, const Vector8& v, Site site = {}) {
  machine->store_shared(address, &v, 8, site);
}

}  // namespace fa2::ptx
