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

FA2_DEVICE void st_release_system_u32(u32* flag, u32 value, Site site = {}) {
  machine->store_flag(flag, value, site);
}

FA2_DEVICE void await_system_u32(const u32* flag, u32 value, Site site = {}) {
  machine->await_flag(flag, value, site);
}

FA2_DEVICE u32 atom_add_acq_rel_global_u32(u32* flag, u32 value, Site site = {}) {
  return machine->add_to_flag(flag, value, site);
}

/// Tries until no block can go on.
FA2_DEVICE bool poll_global_u32(const u32* flag, u32 mask, u32 value, int, Site site = {}) {
  return machine->poll_flag(flag, mask, value, site);
}

}  // namespace fa2::ptx
