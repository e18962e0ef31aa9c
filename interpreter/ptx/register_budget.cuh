// Transfer of registers between warpgroups. The interpreter only counts them.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

template <int kRegisters, bool kIncreases>
FA2_DEVICE void setmaxnreg(const char* name, Site site) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "24, 32, ... 256");
  machine->warp_wide(
      name,
      [](Machine& block, int first, void* const*, Site at) {
        block.setmaxnreg(first, kRegisters, kIncreases, at);
      },
      nullptr, false, site);
  machine->await_registers(site);
}

template <int kRegisters>
FA2_DEVICE void setmaxnreg_dec(Site site = {}) {
  setmaxnreg<kRegisters, false>("setmaxnreg.dec", site);
}

template <int kRegisters>
FA2_DEVICE void setmaxnreg_inc(Site site = {}) {
  setmaxnreg<kRegisters, true>("setmaxnreg.inc", site);
}

}  // namespace fa2::ptx
