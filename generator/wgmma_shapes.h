// Renders ptx/wgmma_shapes.cuh: the warpgroup MMAs of one kernel.
#pragma once

#include <fa2/types.h>
#include <generator/embedded.h>

#include <span>
#include <string>
#include <vector>

namespace fa2 {

/// Where an operand of wgmma comes from.
enum class WgmmaOperand : std::uint8_t {
  k_major,    ///< shared memory, contiguous in the summed dimension
  mn_major,   ///< shared memory, contiguous in the other dimension
  registers,  ///< A only
};

/// One m64nNk16 with float32 accumulators.
struct WgmmaShape {
  DType element = DType::f16;
  std::int32_t n = 0;  ///< a multiple of 8 up to 256
  WgmmaOperand a = WgmmaOperand::k_major;
  WgmmaOperand b = WgmmaOperand::k_major;
};

/// Returns specialisations of wgmma_ss and wgmma_rs (ptx/wgmma.cuh) for these shapes, each shape once.
/// @throws Error(internal) for a shape that no GPU has.
std::string render_wgmma_shapes(std::span<const WgmmaShape> shapes);

/// Returns the header that replaces the placeholder ptx/wgmma_shapes.cuh.
SourceFile wgmma_header(const std::vector<WgmmaShape>& shapes);

}  // namespace fa2
