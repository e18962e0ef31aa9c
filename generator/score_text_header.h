// The texts of scores as headers of kernels.
#pragma once

#include <generator/embedded.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Whether a header says from which file and line its texts come.
enum class Lines : std::uint8_t { left_out, named };

/// How a kernel reads captured tensors: `followed` through the texts, as one does that adds to their gradients, or `staged`: the one
/// that has an element per score lies in shared memory. `ranges`: the kernel also reads ranges of elements at once.
enum class Reads : std::uint8_t { plain, followed, staged, ranges };

/// Returns attention/common/score_text.cuh with the texts that have a number, score_captures.cuh with what they capture, and for
/// followed reads attention/backward/sm80/followed_text.cuh, for ranges attention/rows/range_text.cuh if mask_has_ranges(); nothing for 0. With `query_pieces`
/// score_captures.cuh has these too, even without texts. @throws InvalidRequest if no texts with this number were made in this process.
std::vector<SourceFile> score_text_headers(std::int64_t number, Lines lines, Reads reads = Reads::plain,
                                           bool query_pieces = false);

}  // namespace fa2
