// A block's shared memory, and what is known of every two bytes of it: who wrote, who read, what is in
// flight.
#pragma once

#include <interpreter/clocks.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Every function that returns a string returns the rule that was broken, as a sentence, and empty if none
/// was.
class SharedMemory {
 public:
  /// The window starts at 1024, as it does on a GPU.
  static constexpr std::uint32_t kStart = 1024;

  SharedMemory(std::uint32_t bytes, const Clocks& clocks, bool checks);
  void reset();

  std::string load(int thread, std::uint32_t from, void* to, int bytes);
  std::string store(int thread, std::uint32_t to, const void* from, int bytes);

  /// `thread` issues an asynchronous copy: until it lands nobody may touch its destination, and then only who
  /// knows of `writer`, the thread itself or an agent.
  std::string issue(int thread, Epoch writer, std::uint32_t to, int bytes, int alignment);
  /// Puts bytes there unseen: the data of a copy that is in flight.
  void fill(std::uint32_t to, const void* from, int bytes);
  void land(Epoch writer, std::uint32_t to, int bytes);

  /// Threads [first, first + threads) together issue what an agent will read in the asynchronous proxy. The
  /// moment `reading` is one that nobody knows of before waiting for it: who overwrites earlier is in a race.
  struct AsyncReader {
    int first;
    int threads;
    Epoch reading;
    Epoch verified = {};  ///< the last writer that was found to be known
  };
  std::string read_async(AsyncReader& reader, std::uint32_t from, int bytes);
  /// The bytes there, unseen: the data of such a read, whose bounds were checked.
  const std::byte* peek(std::uint32_t from) const { return &bytes_[from - kStart]; }

  /// 8 bytes become an mbarrier, which no plain access may touch any more.
  std::string become_mbarrier(int thread, std::uint32_t address);

 private:
  static constexpr int kGranule = 2;  ///< bytes; no access is smaller

  struct Granule {
    Epoch writer;
    std::vector<Epoch> readers;  ///< since the last write; none that happened before another
    bool written = false;
    bool in_flight = false;
    bool is_mbarrier = false;
  };

  std::string out_of_bounds(const char* what, std::uint32_t address, int bytes, int alignment) const;
  std::string conflict(const char* what, std::uint32_t address, int who, const char* other_what,
                       Epoch other) const;
  std::string untouchable(const char* what, std::uint32_t address, const Granule& granule) const;
  std::string check_store(int thread, std::uint32_t to, int bytes, const char* what) const;
  std::string check_async_read(AsyncReader& reader, std::uint32_t address, const Granule& granule) const;
  Granule* granules(std::uint32_t address) { return &granules_[(address - kStart) / kGranule]; }
  const Granule* granules(std::uint32_t address) const { return &granules_[(address - kStart) / kGranule]; }
  void note_reader(Granule& granule, int thread, Epoch reading) const;

  std::vector<std::byte> bytes_;
  std::vector<Granule> granules_;
  const Clocks& clocks_;
  bool checks_;
};

}  // namespace fa2::interpreter
