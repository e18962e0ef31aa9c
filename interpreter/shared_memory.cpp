// FastTrack's epochs (Flanagan and Freund, 2009), for two bytes at a time.
#include <fmt/format.h>
#include <interpreter/shared_memory.h>

#include <cstring>

namespace fa2::interpreter {

SharedMemory::SharedMemory(std::uint32_t bytes, const Clocks& clocks, bool checks)
    : bytes_(bytes),
      granules_(checks ? (bytes + kGranule - 1) / kGranule : 0),
      clocks_(clocks),
      checks_(checks) {
  reset();
}

void SharedMemory::reset() {
  std::memset(bytes_.data(), 0xff, bytes_.size());  // NaN
  for (Granule& granule : granules_) {
    granule.readers.clear();
    granule.writer = {};
    granule.written = granule.in_flight = false;
  }
}

std::string SharedMemory::out_of_bounds(const char* what, std::uint32_t address, int bytes) const {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (address < kStart || address - kStart + size > bytes_.size()) {
    return fmt::format("{} of {} bytes at shared address {}, outside the block's {} bytes at {}", what, bytes,
                       address, bytes_.size(), kStart);
  }
  if (address % size != 0)
    return fmt::format("{} of {} bytes at shared address {}: misaligned", what, bytes, address);
  return {};
}

std::string SharedMemory::conflict(const char* what, std::uint32_t address, int thread,
                                   const char* other_what, Epoch other) const {
  return fmt::format(
      "race: {} of shared address {} by thread {}, and {} by thread {} with no barrier between them", what,
      address, thread, other_what, other.thread);
}

void SharedMemory::note_reader(Granule& granule, int thread) const {
  for (Epoch& reader : granule.readers) {
    if (reader.thread != thread && !clocks_.knows(thread, reader)) continue;
    reader = clocks_.now(thread);
    return;
  }
  granule.readers.push_back(clocks_.now(thread));
}

std::string SharedMemory::load(int thread, std::uint32_t from, void* to, int bytes) {
  if (auto broken = out_of_bounds("load", from, bytes); !broken.empty()) return broken;
  if (checks_) {
    Granule* granule = granules(from);
    for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
      const std::uint32_t address = from + static_cast<std::uint32_t>(i * kGranule);
      if (granule->in_flight) {
        return fmt::format(
            "load of shared address {}, to which an asynchronous copy of thread {} is in flight", address,
            granule->writer.thread);
      }
      if (!granule->written)
        return fmt::format("load of shared address {}, which nothing has written", address);
      if (!clocks_.knows(thread, granule->writer))
        return conflict("load", address, thread, "store", granule->writer);
      note_reader(*granule, thread);
    }
  }
  std::memcpy(to, &bytes_[from - kStart], static_cast<std::size_t>(bytes));
  return {};
}

std::string SharedMemory::check_store(int thread, std::uint32_t to, int bytes, const char* what) const {
  if (auto broken = out_of_bounds(what, to, bytes); !broken.empty() || !checks_) return broken;
  const Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    const std::uint32_t address = to + static_cast<std::uint32_t>(i * kGranule);
    if (granule->in_flight) {
      return fmt::format("{} to shared address {}, to which an asynchronous copy of thread {} is in flight",
                         what, address, granule->writer.thread);
    }
    if (!clocks_.knows(thread, granule->writer))
      return conflict(what, address, thread, "store", granule->writer);
    for (const Epoch& reader : granule->readers) {
      if (!clocks_.knows(thread, reader)) return conflict(what, address, thread, "load", reader);
    }
  }
  return {};
}

std::string SharedMemory::store(int thread, std::uint32_t to, const void* from, int bytes) {
  if (auto broken = check_store(thread, to, bytes, "store"); !broken.empty()) return broken;
  fill(to, from, bytes);
  if (checks_) land(thread, to, bytes);
  return {};
}

std::string SharedMemory::issue(int thread, std::uint32_t to, int bytes) {
  if (auto broken = check_store(thread, to, bytes, "asynchronous copy"); !broken.empty() || !checks_)
    return broken;
  Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    granule->in_flight = true;
    granule->writer = clocks_.now(thread);
  }
  return {};
}

void SharedMemory::fill(std::uint32_t to, const void* from, int bytes) {
  std::memcpy(&bytes_[to - kStart], from, static_cast<std::size_t>(bytes));
}

void SharedMemory::land(int thread, std::uint32_t to, int bytes) {
  if (!checks_) return;
  Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    granule->in_flight = false;
    granule->written = true;
    granule->writer = clocks_.now(thread);
    granule->readers.clear();
  }
}

}  // namespace fa2::interpreter
