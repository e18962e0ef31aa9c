// Loads, stores and asynchronous copies of shared memory; each is checked before it acts.
#include <fmt/format.h>
#include <interpreter/shared_memory.h>

#include <cstring>

namespace fa2::interpreter {

SharedMemory::SharedMemory(std::uint32_t bytes, const Clocks& clocks, int rank, bool checks)
    : bytes_(bytes),
      granules_(checks ? (bytes + kGranule - 1) / kGranule : 0),
      clocks_(clocks),
      rank_(rank),
      checks_(checks) {
  reset();
}

void SharedMemory::reset() {
  std::memset(bytes_.data(), 0xff, bytes_.size());  // NaN
  for (Granule& granule : granules_) {
    granule.readers.clear();
    granule.writer = {};
    granule.written = granule.in_flight = granule.is_mbarrier = false;
  }
}

std::string SharedMemory::text_of(std::uint32_t address) const {
  return fmt::format("{}{}", address, clocks_.of_block(rank_));
}

std::string SharedMemory::out_of_bounds(const char* what, std::uint32_t address, int bytes,
                                        int alignment) const {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (address < kStart || address - kStart + size > bytes_.size()) {
    return fmt::format("{} of {} bytes at shared address {}, outside the block's {} bytes at {}", what, bytes,
                       text_of(address), bytes_.size(), kStart);
  }
  if (address % static_cast<std::uint32_t>(alignment) != 0) {
    return fmt::format("{} of {} bytes at shared address {}: misaligned{}", what, bytes, text_of(address),
                       alignment == bytes ? "" : fmt::format(", it must be a multiple of {}", alignment));
  }
  return {};
}

std::string SharedMemory::load(int thread, std::uint32_t from, void* to, int bytes) {
  if (auto broken = out_of_bounds("load", from, bytes, bytes); !broken.empty()) return broken;
  if (checks_) {
    Granule* granule = granules(from);
    for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
      const std::uint32_t address = from + static_cast<std::uint32_t>(i * kGranule);
      if (auto broken = untouchable("load of", address, *granule); !broken.empty()) return broken;
      if (!granule->written)
        return fmt::format("load of shared address {}, which nothing has written", text_of(address));
      if (!clocks_.knows(thread, granule->writer))
        return conflict("load", address, thread, "store", granule->writer);
      note_reader(*granule, thread, clocks_.now(thread));
    }
  }
  std::memcpy(to, &bytes_[from - kStart], static_cast<std::size_t>(bytes));
  return {};
}

std::string SharedMemory::store(int thread, std::uint32_t to, const void* from, int bytes) {
  if (auto broken = out_of_bounds("store", to, bytes, bytes); !broken.empty()) return broken;
  if (checks_) {
    if (auto broken = check_store(thread, to, bytes, "store"); !broken.empty()) return broken;
  }
  fill(to, from, bytes);
  land(clocks_.now(thread), to, bytes);
  return {};
}

std::string SharedMemory::issue(int thread, Epoch writer, std::uint32_t to, int bytes, int alignment) {
  const char* const what = "asynchronous copy";
  if (auto broken = out_of_bounds(what, to, bytes, alignment); !broken.empty() || !checks_) return broken;
  if (auto broken = check_store(thread, to, bytes, what); !broken.empty()) return broken;
  Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    if (clocks_.is_agent(writer.who) && !clocks_.knows_fence(thread, granule->writer, rank_)) {
      return fmt::format(
          "asynchronous copy to shared address {}, which {} wrote with no fence.proxy.async after it",
          text_of(to + static_cast<std::uint32_t>(i * kGranule)), clocks_.name(granule->writer.who));
    }
    granule->in_flight = true;
    granule->writer = writer;
  }
  return {};
}

void SharedMemory::fill(std::uint32_t to, const void* from, int bytes) {
  std::memcpy(&bytes_[to - kStart], from, static_cast<std::size_t>(bytes));
}

void SharedMemory::land(Epoch writer, std::uint32_t to, int bytes) {
  if (!checks_) return;
  Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    granule->in_flight = false;
    granule->written = true;
    granule->writer = writer;
    granule->readers.clear();
  }
}

std::string SharedMemory::read_async(AsyncReader& reader, std::uint32_t from, int bytes) {
  if (auto broken = out_of_bounds("asynchronous load", from, bytes, 16); !broken.empty() || !checks_)
    return broken;
  Granule* granule = granules(from);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    const std::uint32_t address = from + static_cast<std::uint32_t>(i * kGranule);
    if (auto broken = check_async_read(reader, address, *granule); !broken.empty()) return broken;
    note_reader(*granule, reader.first, reader.reading);
  }
  return {};
}

std::string SharedMemory::become_mbarrier(int thread, std::uint32_t address) {
  constexpr int kBytes = 8;
  if (auto broken = out_of_bounds("mbarrier.init", address, kBytes, kBytes); !broken.empty() || !checks_)
    return broken;
  if (auto broken = check_store(thread, address, kBytes, "mbarrier.init"); !broken.empty()) return broken;
  for (int i = 0; i < kBytes / kGranule; ++i) granules(address)[i].is_mbarrier = true;
  return {};
}

}  // namespace fa2::interpreter
