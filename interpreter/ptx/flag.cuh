// Words in global memory with which blocks wait for one another.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void st_release_global_u32(u32* flag, u32 value, Site site = {}) {
  machine->store_flag(flag, value, site);
}

FA2_DEVICE void await_global_u32(const u32* flag, u32 value, Site site = {}) {
  machine->await_flag(flag, value, site);
}

}  // namespace fa2::ptx
