// Detects races with FastTrack's epochs (Flanagan and Freund, 2009), for two bytes at a time.
#include <fmt/format.h>
#include <interpreter/shared_memory.h>

namespace fa2::interpreter {

std::string SharedMemory::conflict(const char* what, std::uint32_t address, int who, const char* other_what,
                                   Epoch other) const {
  return fmt::format("race: {} of shared address {} by {}, and {} by {} with no barrier between them", what,
                     text_of(address), clocks_.name(who), other_what, clocks_.name(other.who));
}

std::string SharedMemory::untouchable(const char* what, std::uint32_t address, const Granule& granule) const {
  if (granule.is_mbarrier)
    return fmt::format("{} shared address {}, which belongs to an mbarrier", what, text_of(address));
  if (!granule.in_flight) return {};
  return fmt::format("{} shared address {}, to which an asynchronous copy of {} is in flight", what,
                     text_of(address), clocks_.name(granule.writer.who));
}

void SharedMemory::note_reader(Granule& granule, int thread, Epoch reading) const {
  for (Epoch& reader : granule.readers) {
    if (reader.who != reading.who && !clocks_.knows(thread, reader)) continue;
    reader = reading;
    return;
  }
  granule.readers.push_back(reading);
}

std::string SharedMemory::check_store(int thread, std::uint32_t to, int bytes, const char* what) const {
  const Granule* granule = granules(to);
  for (int i = 0; i < bytes / kGranule; ++i, ++granule) {
    const std::uint32_t address = to + static_cast<std::uint32_t>(i * kGranule);
    if (granule->is_mbarrier || granule->in_flight)
      return untouchable(fmt::format("{} to", what).c_str(), address, *granule);
    if (!clocks_.knows(thread, granule->writer))
      return conflict(what, address, thread, "store", granule->writer);
    for (const Epoch& reader : granule->readers) {
      if (!clocks_.knows(thread, reader)) return conflict(what, address, thread, "load", reader);
    }
  }
  return {};
}

std::string SharedMemory::check_async_read(AsyncReader& reader, std::uint32_t address,
                                           const Granule& granule) const {
  if (auto broken = untouchable("asynchronous load of", address, granule); !broken.empty()) return broken;
  if (!granule.written)
    return fmt::format("asynchronous load of shared address {}, which nothing has written", text_of(address));
  const Epoch writer = granule.writer;
  if (writer.who == reader.verified.who && writer.clock == reader.verified.clock) return {};
  for (int thread = reader.first; thread < reader.first + reader.threads; ++thread) {
    if (!clocks_.knows(thread, writer)) return conflict("load", address, reader.reading.who, "store", writer);
    if (!clocks_.knows_fence(thread, writer, rank_)) {
      return fmt::format(
          "asynchronous load of shared address {} by {}, which {} wrote with no fence.proxy.async before the "
          "barrier",
          text_of(address), clocks_.name(reader.reading.who), clocks_.name(writer.who));
    }
  }
  reader.verified = writer;
  return {};
}

}  // namespace fa2::interpreter
