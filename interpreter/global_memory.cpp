// A few ranges, searched one by one.
#include <fmt/format.h>
#include <interpreter/global_memory.h>

#include <cstdint>

namespace fa2::interpreter {
namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

GlobalMemory::GlobalMemory(const std::vector<MemoryRange>& ranges) {
  for (const MemoryRange& range : ranges) {
    Buffer buffer{range, nullptr};
    if (range.access == Access::write)
      buffer.written = std::make_unique<std::atomic<bool>[]>((range.bytes + 1) / 2);
    buffers_.push_back(std::move(buffer));
  }
}

const GlobalMemory::Buffer* GlobalMemory::find(const void* address, int bytes, bool writing) const {
  const Access unwanted = writing ? Access::read : Access::write;
  const Buffer* found = nullptr;
  for (const Buffer& buffer : buffers_) {
    const std::uintptr_t begin = address_of(buffer.range.begin);
    if (address_of(address) < begin ||
        address_of(address) + static_cast<unsigned>(bytes) > begin + buffer.range.bytes)
      continue;
    // Slices of one packed buffer: an input's range may hold an output's.
    if (found == nullptr || buffer.range.access != unwanted) found = &buffer;
  }
  return found;
}

std::string GlobalMemory::describe(const char* what, const void* address, int bytes) const {
  std::string known;
  for (const Buffer& buffer : buffers_) {
    known += fmt::format("{}{} at {} ({} bytes)", known.empty() ? "" : ", ", buffer.range.name,
                         fmt::ptr(buffer.range.begin), buffer.range.bytes);
  }
  return fmt::format("{} of {} bytes at global address {}, outside the buffers of this launch: {}", what,
                     bytes, address, known);
}

std::string GlobalMemory::check_load(const void* from, int bytes, int alignment) const {
  if (address_of(from) % static_cast<unsigned>(alignment) != 0)
    return fmt::format("load of {} bytes at global address {}: misaligned", bytes, from);
  const Buffer* const buffer = find(from, bytes, false);
  if (buffer == nullptr) return describe("load", from, bytes);
  if (buffer->written == nullptr) return {};
  const std::size_t first = (address_of(from) - address_of(buffer->range.begin)) / 2;
  for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / 2; ++i) {
    if (!buffer->written[first + i])
      return fmt::format("load at global address {} in {}, which nothing has written", from,
                         buffer->range.name);
  }
  return {};
}

std::string GlobalMemory::check_store(const void* to, int bytes, int alignment) const {
  if (address_of(to) % static_cast<unsigned>(alignment) != 0)
    return fmt::format("store of {} bytes at global address {}: misaligned", bytes, to);
  const Buffer* const buffer = find(to, bytes, true);
  if (buffer == nullptr) return describe("store", to, bytes);
  if (buffer->range.access != Access::read) return {};
  return fmt::format("store of {} bytes at global address {}, in the input {}", bytes, to,
                     buffer->range.name);
}

void GlobalMemory::note_store(const void* to, int bytes) {
  const Buffer* const buffer = find(to, bytes, true);
  if (buffer->written == nullptr) return;
  const std::size_t first = (address_of(to) - address_of(buffer->range.begin)) / 2;
  for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / 2; ++i) buffer->written[first + i] = true;
}

}  // namespace fa2::interpreter
