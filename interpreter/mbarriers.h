// The mbarriers of a block: arrivals, bytes of asynchronous copies, phases.
#pragma once

#include <interpreter/clocks.h>
#include <interpreter/shared_memory.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Every function that returns a string returns the rule that was broken, as a sentence, and empty if none
/// was.
class Mbarriers {
 public:
  /// `wake(thread)`: a thread that waited may go on.
  Mbarriers(Clocks& clocks, SharedMemory& shared, bool checks, std::function<void(int thread)> wake);
  void reset() { list_.clear(); }

  std::string init(int thread, std::uint32_t address, int arrivals);
  /// By `thread`, for what it has initialised.
  void fence_init(int thread);
  /// The phase expects `bytes` more from asynchronous copies; then `thread` arrives.
  std::string arrive(int thread, std::uint32_t address, int bytes);
  /// Unless the last phase of that parity is complete, the thread waits: `waits` becomes true, and it is
  /// woken.
  std::string wait(int thread, std::uint32_t address, unsigned parity, bool& waits);

  /// An asynchronous copy that `thread` issues will count on this mbarrier: what it writes is written at
  /// `moment`.
  std::string attach_copy(int thread, std::uint32_t address, Epoch& moment);
  /// When a copy that lands now is done.
  Epoch copy_moment(std::uint32_t address) const;
  /// `bytes` of an asynchronous copy have landed.
  std::string complete(std::uint32_t address, int bytes);

  /// "the mbarrier at 1024 (phase 3: 1 of 2 arrivals and 4096 bytes are missing)".
  std::string describe(std::uint32_t address) const;

 private:
  struct Waiting {
    int thread;
    unsigned parity;
  };
  struct Mbarrier {
    Epoch initialised;
    bool fenced = false;  ///< shown to asynchronous copies
    int arrivals = 0;     ///< of a phase
    int missing = 0;      ///< of this phase
    int bytes = 0;        ///< expected in this phase, and not here yet
    std::uint32_t phase = 0;
    int agent = -1;   ///< who writes what is copied; phase n at its moment n + 1
    Times joining;    ///< what a wait for this phase will pass on
    Times completed;  ///< and for the last one
    std::vector<Waiting> waiting;
  };

  std::string find(int thread, std::uint32_t address, const char* what, Mbarrier*& found);
  void finish_phase(Mbarrier& mbarrier);

  Clocks& clocks_;
  SharedMemory& shared_;
  bool checks_;
  std::function<void(int thread)> wake_;
  std::map<std::uint32_t, Mbarrier> list_;
};

}  // namespace fa2::interpreter
