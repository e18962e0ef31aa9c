// Configurations of the forward kernels on mma.sync, for tests that go over every variant, length or page.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

/// Main loops 80 and 81. Seven: what else changes from case to case goes round by other numbers.
inline const std::vector<std::string> kMmaConfigs = {
    "mainloop=80,tile_m=64,tile_n=32,warps=4,stages=1",
    "mainloop=80,tile_m=64,tile_n=64,warps=4,stages=2",
    "mainloop=80,tile_m=64,tile_n=48,warps=4,stages=3,q_in_registers=1",
    "mainloop=81,tile_m=16,tile_n=32,warps=4,stages=2,q_in_registers=1",
    "mainloop=81,tile_m=32,tile_n=16,warps=3,stages=3",
    "mainloop=81,tile_m=16,tile_n=16,warps=8,stages=2",
    "mainloop=81,tile_m=16,tile_n=64,warps=1,stages=2"};

}  // namespace fa2::test
