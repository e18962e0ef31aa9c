// libdeflate: smaller and faster than zlib for buffers that are there as a whole.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <runtime/compression.h>

#include <memory>
#include <new>

namespace fa2 {
namespace {

constexpr int kSlowest = 12;  // a pack is compressed once, and read many times

template <class State>
using Owned = std::unique_ptr<State, void (*)(State*)>;

template <class State>
Owned<State> require(State* state, void (*release)(State*)) {
  if (state == nullptr) throw std::bad_alloc();
  return Owned<State>(state, release);
}

}  // namespace

std::vector<std::byte> compress(std::span<const std::byte> bytes) {
  const auto state = require(libdeflate_alloc_compressor(kSlowest), libdeflate_free_compressor);
  std::vector<std::byte> out(libdeflate_zlib_compress_bound(state.get(), bytes.size()));
  out.resize(libdeflate_zlib_compress(state.get(), bytes.data(), bytes.size(), out.data(), out.size()));
  return out;
}

std::vector<std::byte> decompress(std::span<const std::byte> compressed, std::size_t size) {
  const auto state = require(libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  std::vector<std::byte> out(size);
  // Without a place for the actual size, any other size than `size` is an error.
  const libdeflate_result result = libdeflate_zlib_decompress(
      state.get(), compressed.data(), compressed.size(), out.data(), out.size(), nullptr);
  if (result != LIBDEFLATE_SUCCESS)
    throw CacheError(fmt::format("damaged: its {} bytes do not decompress to {}", compressed.size(), size));
  return out;
}

}  // namespace fa2
