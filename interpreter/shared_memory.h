// A block's shared memory. For every two bytes it records the writer, the readers and asynchronous copies.
#pragma once

#include <interpreter/clocks.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Threads of every block of the cluster may access it. Functions that return a string return the violated rule
/// as a sentence; empty if none.
class SharedMemory {
 public:
  /// First shared address, 1024 as on a GPU.
  static constexpr std::uint32_t kStart = 1024;

  /// `rank`: the block's number in its cluster.
  SharedMemory(std::uint32_t bytes, const Clocks& clocks, int rank, bool checks);
  void reset();

  /// Returns "1028", in a cluster of several blocks "1028 of block 2".
  std::string text_of(std::uint32_t address) const;

  std::string load(int thread, std::uint32_t from, void* to, int bytes);
  std::string store(int thread, std::uint32_t to, const void* from, int bytes);

  /// `thread` issues an asynchronous copy. Before it lands no thread may touch its destination. Afterwards a
  /// thread must have synchronised with `writer`, which is the thread itself or an agent.
  std::string issue(int thread, Epoch writer, std::uint32_t to, int bytes, int alignment);
  /// Stores bytes without checks: the data of a copy in flight.
  void fill(std::uint32_t to, const void* from, int bytes);
  void land(Epoch writer, std::uint32_t to, int bytes);

  /// Threads [first, first + threads) together issue an agent's asynchronous read. A thread learns of the
  /// moment `reading` when it waits; an earlier overwrite is a race.
  struct AsyncReader {
    int first;
    int threads;
    Epoch reading;
    Epoch verified = {};  ///< last writer with which the threads had synchronised
  };
  std::string read_async(AsyncReader& reader, std::uint32_t from, int bytes);
  /// Returns bytes without checks: the data of an asynchronous read, whose bounds were checked.
  const std::byte* peek(std::uint32_t from) const { return &bytes_[from - kStart]; }

  /// Turns 8 bytes into an mbarrier, which no plain access may touch.
  std::string become_mbarrier(int thread, std::uint32_t address);

 private:
  static constexpr int kGranule = 2;  ///< bytes; no access is smaller

  struct Granule {
    Epoch writer;
    std::vector<Epoch> readers;  ///< since the last write; none happened before another
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
  int rank_;
  bool checks_;
};

}  // namespace fa2::interpreter
