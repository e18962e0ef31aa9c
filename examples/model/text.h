// Makes batches from text files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model.h"
#include "shape.h"

namespace example {

/// Returns the bytes of all files, one after the other. @throws std::runtime_error if a file cannot be read, or if the text is too
/// short for batches of `shape`.
std::vector<std::uint8_t> read_text(const std::vector<std::string>& files, const Shape& shape);

/// Returns sequences that begin at random places. The text must have more than `shape.context` bytes.
Batch random_batch(const std::vector<std::uint8_t>& text, const Shape& shape, Random& random);

}  // namespace example
