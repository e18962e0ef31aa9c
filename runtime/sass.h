// Facts about a cubin's machine code that the compiler's log omits.
#pragma once

#include <cstddef>
#include <span>

namespace fa2 {

/// Returns the moves from registers to uniform registers (R2UR) between the first and the last warpgroup MMA
/// of an sm_90a cubin. There ptxas could not prove that a value is equal in all lanes. Returns 0 without
/// warpgroup MMAs. `cubin` must be an ELF file.
int uniform_moves_between_mmas(std::span<const std::byte> cubin);

}  // namespace fa2
