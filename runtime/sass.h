// What a cubin's machine code shows that the compiler's log does not say.
#pragma once

#include <cstddef>
#include <span>

namespace fa2 {

/// Moves of registers into uniform registers (R2UR) between the first and the last warpgroup MMA of an sm_90a
/// cubin, where its main loop is: what a wgmma takes from uniform registers, ptxas could not prove to be
/// the same in all lanes. 0 without warpgroup MMAs. `cubin` is an ELF file.
int uniform_moves_between_mmas(std::span<const std::byte> cubin);

}  // namespace fa2
