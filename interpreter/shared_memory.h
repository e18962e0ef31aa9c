// A block's shared memory, and what is known of every two bytes of it: who wrote, who read, what is in
// flight.
#pragma once

#include <interpreter/clocks.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Every function returns the rule that was broken, as a sentence, and empty if none was.
class SharedMemory {
 public:
  /// The window starts at 1024, as it does on a GPU.
  static constexpr std::uint32_t kStart = 1024;

  SharedMemory(std::uint32_t bytes, const Clocks& clocks, bool checks);
  void reset();

  std::string load(int thread, std::uint32_t from, void* to, int bytes);
  std::string store(int thread, std::uint32_t to, const void* from, int bytes);

  /// An asynchronous copy is issued: until it lands nobody may touch its destination.
  std::string issue(int thread, std::uint32_t to, int bytes);
  /// Puts bytes there unseen: the data of a copy that is in flight.
  void fill(std::uint32_t to, const void* from, int bytes);
  /// The copy is complete for `thread`, which waited for it.
  void land(int thread, std::uint32_t to, int bytes);

 private:
  static constexpr int kGranule = 2;  ///< bytes; no access is smaller

  struct Granule {
    Epoch writer;
    std::vector<Epoch> readers;  ///< since the last write; none that happened before another
    bool written = false;
    bool in_flight = false;
  };

  std::string out_of_bounds(const char* what, std::uint32_t address, int bytes) const;
  std::string conflict(const char* what, std::uint32_t address, int thread, const char* other_what,
                       Epoch other) const;
  std::string check_store(int thread, std::uint32_t to, int bytes, const char* what) const;
  Granule* granules(std::uint32_t address) { return &granules_[(address - kStart) / kGranule]; }
  const Granule* granules(std::uint32_t address) const { return &granules_[(address - kStart) / kGranule]; }
  void note_reader(Granule& granule, int thread) const;

  std::vector<std::byte> bytes_;
  std::vector<Granule> granules_;
  const Clocks& clocks_;
  bool checks_;
};

}  // namespace fa2::interpreter
