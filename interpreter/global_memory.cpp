// A few ranges, searched in order.
#include <fmt/format.h>
#include <interpreter/global_memory.h>

#include <algorithm>
#include <cstdint>

namespace fa2::interpreter {
namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// The cells of [address, address + bytes), relative to the cell of `begin`.
struct Cells {
  std::uintptr_t first;
  std::uintptr_t end;
};

Cells cells_between(const std::byte* begin, const void* address, int bytes) {
  const std::uintptr_t origin = address_of(begin) / 2;
  return {address_of(address) / 2 - origin,
          (address_of(address) + static_cast<unsigned>(bytes) + 1) / 2 - origin};
}

bool is_followed(const MemoryRange& range) {
  return range.bytes > 0 && (!range.initialised || range.access == Access::write);
}

}  // namespace

GlobalMemory::GlobalMemory(const std::vector<MemoryRange>& ranges, WrittenBytes& written, bool begins_early)
    : begins_early_(begins_early), is_first_(written.begin_launch()) {
  for (const MemoryRange& range : ranges) {
    if (is_followed(range)) written.track(range.begin, range.bytes);
  }
  for (const MemoryRange& range : ranges)
    buffers_.push_back({range, is_followed(range) ? written.cell_of(range.begin) : nullptr});
}

bool GlobalMemory::Buffer::holds(const void* address, int bytes) const {
  const std::uintptr_t begin = address_of(range.begin);
  return address_of(address) >= begin &&
         address_of(address) + static_cast<unsigned>(bytes) <= begin + range.bytes;
}

Written GlobalMemory::Buffer::oldest(const void* address, int bytes) const {
  const Cells cells = cells_between(range.begin, address, bytes);
  Written oldest = Written::now;
  for (std::uintptr_t i = cells.first; i < cells.end; ++i)
    oldest = std::min(oldest, written[i].load(std::memory_order_relaxed));
  return oldest;
}

bool GlobalMemory::Buffer::has_earlier(const void* address, int bytes) const {
  const Cells cells = cells_between(range.begin, address, bytes);
  return std::any_of(written + cells.first, written + cells.end, [](const WrittenBytes::Cell& cell) {
    return cell.load(std::memory_order_relaxed) == Written::before;
  });
}

std::string_view GlobalMemory::sentence_of(Refusal refusal, Access access) {
  switch (refusal) {
    case Refusal::read_only:
      return "which this launch may only read";
    case Refusal::unwritten:
      return access == Access::read ? "which nothing has written" : "which nothing has initialised";
    case Refusal::write_only:
      return "of which this launch may read only what it has written itself";
    case Refusal::none:
      break;
  }
  return "";
}

GlobalMemory::Refusal GlobalMemory::refusal_of(const Buffer& buffer, Access access, const void* address,
                                               int bytes) {
  if (access != Access::read && buffer.range.access == Access::read) return Refusal::read_only;
  if (access == Access::write || buffer.written == nullptr) return Refusal::none;
  const Written oldest = buffer.oldest(address, bytes);
  if (oldest == Written::now) return Refusal::none;
  if (oldest == Written::never && !buffer.range.initialised) return Refusal::unwritten;
  return buffer.range.access == Access::write ? Refusal::write_only : Refusal::none;
}

std::string GlobalMemory::check(Access access, const void* address, int bytes, int alignment) const {
  constexpr std::string_view kNames[] = {"load", "store", "atomic"};
  const auto what = [&] {
    return fmt::format("{} of {} bytes at global address {}", kNames[static_cast<std::size_t>(access)], bytes,
                       address);
  };
  if (address_of(address) % static_cast<unsigned>(alignment) != 0) return what() + ": misaligned";
  const Buffer* refusing = nullptr;
  Refusal refusal = Refusal::none;
  for (const Buffer& buffer : buffers_) {
    if (!buffer.holds(address, bytes)) continue;
    refusing = &buffer;
    refusal = refusal_of(buffer, access, address, bytes);
    // Operands may be slices of one packed buffer, so an input's range may contain an output's. One buffer
    // that allows the access is enough.
    if (refusal == Refusal::none) return {};
  }
  if (refusing == nullptr) return fmt::format("{}, outside the buffers of this launch: {}", what(), names());
  return fmt::format("{} in {}, {}", what(), refusing->range.name, sentence_of(refusal, access));
}

std::string GlobalMemory::check_load(const void* from, int bytes, int alignment) const {
  return check(Access::read, from, bytes, alignment);
}

std::string GlobalMemory::check_store(const void* to, int bytes, int alignment) const {
  return check(Access::write, to, bytes, alignment);
}

std::string GlobalMemory::check_atomic(const void* address, int bytes, int alignment) const {
  return check(Access::read_write, address, bytes, alignment);
}

std::string GlobalMemory::check_order(const void* address, int bytes) const {
  if (!begins_early_) return {};
  const auto hastens = [&](const Buffer& buffer) {
    return buffer.holds(address, bytes) &&
           (is_first_ || (buffer.written != nullptr && buffer.has_earlier(address, bytes)));
  };
  const auto found = std::ranges::find_if(buffers_, hastens);
  if (found == buffers_.end()) return {};
  return fmt::format(
      "access of {} bytes at global address {} in {}, which an earlier launch {} written: this thread has "
      "not waited for it (griddepcontrol.wait)",
      bytes, address, found->range.name, is_first_ ? "may have" : "has");
}

void GlobalMemory::note_store(const void* to, int bytes) {
  for (const Buffer& buffer : buffers_) {
    if (buffer.written == nullptr || !buffer.holds(to, bytes)) continue;
    const Cells cells = cells_between(buffer.range.begin, to, bytes);
    for (std::uintptr_t i = cells.first; i < cells.end; ++i)
      buffer.written[i].store(Written::now, std::memory_order_relaxed);
  }
}

std::string GlobalMemory::names() const {
  std::string list;
  for (const Buffer& buffer : buffers_) {
    list += fmt::format("{}{} at {} ({} bytes)", list.empty() ? "" : ", ", buffer.range.name,
                        fmt::ptr(buffer.range.begin), buffer.range.bytes);
  }
  return list;
}

}  // namespace fa2::interpreter
