// Compression of whole buffers, in zlib's format.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fa2 {

/// Returns the compressed bytes. The same library gives the same bytes for the same input.
std::vector<std::byte> compress(std::span<const std::byte> bytes);

/// Returns the original, which must have exactly `size` bytes. @throws CacheError if `compressed` is damaged or has another size.
std::vector<std::byte> decompress(std::span<const std::byte> compressed, std::size_t size);

}  // namespace fa2
