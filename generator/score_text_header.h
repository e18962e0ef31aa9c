// The texts of scores as a header of kernels.
#pragma once

#include <generator/embedded.h>

#include <cstdint>

namespace fa2 {

/// Whether a header says from which file and line its texts come.
enum class Lines : std::uint8_t { left_out, named };

/// Returns attention/common/score_text.cuh with the texts that have a number.
/// @throws InvalidRequest if no texts with this number were made in this process.
SourceFile score_text_header(std::int64_t number, Lines lines);

}  // namespace fa2
