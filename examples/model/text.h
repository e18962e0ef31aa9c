// Batches out of files of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model.h"
#include "shape.h"

namespace example {

/// The files' bytes, one after the other. @throws std::runtime_error naming a file that cannot be read, or if there are too few
/// for batches of `shape`.
std::vector<std::uint8_t> read_text(const std::vector<std::string>& files, const Shape& shape);

/// Sequences that begin anywhere in a text of more than `shape.context` bytes.
Batch random_batch(const std::vector<std::uint8_t>& text, const Shape& shape, Random& random);

}  // namespace example
