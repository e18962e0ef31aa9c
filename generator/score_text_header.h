// The texts of scores as headers of kernels.
#pragma once

#include <generator/embedded.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Whether a header says from which file and line its texts come.
enum class Lines : std::uint8_t { left_out, named };

/// Returns attention/common/score_text.cuh with the texts that have a number, and score_captures.cuh with what they capture; nothing
/// for 0. @throws InvalidRequest if no texts with this number were made in this process.
std::vector<SourceFile> score_text_headers(std::int64_t number, Lines lines);

}  // namespace fa2
