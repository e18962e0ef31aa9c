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

/// The scope of a wait, .cta or .cluster. A wait with `block` learns what the block's own threads and loads did. A wait with
/// `cluster` also learns what other blocks did.
enum class Scope : std::uint8_t { block, cluster };

/// Where a copy that completes at an mbarrier comes from: global memory, or shared memory of a block of the cluster.
enum class CopySource : std::uint8_t { global, block };

/// Functions that return a string return the violated rule as a sentence; empty if none.
class Mbarriers {
 public:
  /// `wake(thread)` resumes a thread that waited.
  Mbarriers(Clocks& clocks, SharedMemory& shared, bool checks, std::function<void(int thread)> wake);
  void reset() { list_.clear(); }

  std::string init(int thread, std::uint32_t address, int arrivals);
  /// `thread` fences the mbarriers that it initialised.
  void fence_init(int thread);
  /// Makes the phase expect `bytes` more from asynchronous copies; then `thread`, of any block, arrives.
  std::string arrive(int thread, std::uint32_t address, int bytes);
  /// `thread` has issued copies that will arrive.
  std::string expect_arrival(int thread, std::uint32_t address);
  /// Copies arrive that were issued at `issued`.
  std::string arrive_at(Epoch issued, std::uint32_t address);
  /// Sets `waits` unless the last phase with this parity is complete. A thread that waits is woken later.
  std::string wait(int thread, std::uint32_t address, unsigned parity, Scope scope, bool& waits);

  /// Lets an asynchronous copy by `thread` count on this mbarrier. The copy writes at `moment`.
  std::string attach_copy(int thread, std::uint32_t address, CopySource source, Epoch& moment);
  /// Returns the moment of a copy that completes now.
  Epoch copy_moment(std::uint32_t address, CopySource source) const;
  /// Counts `bytes` that an asynchronous copy has written.
  std::string complete(std::uint32_t address, int bytes);

  /// Returns a description: "the mbarrier at 1024 (phase 3: 1 of 2 arrivals and 4096 bytes are missing)".
  std::string describe(std::uint32_t address) const;

 private:
  struct Waiting {
    int thread;
    unsigned parity;
    Scope scope;
  };
  /// What arrivals and copies pass on.
  struct Side {
    int agent = -1;   ///< writes the copied bytes; phase n at its moment n + 1
    Times joining;    ///< passed on by a wait for this phase
    Times completed;  ///< passed on by a wait for the last phase
  };
  struct Mbarrier {
    Epoch initialised;
    bool fenced = false;  ///< visible to asynchronous copies
    int arrivals = 0;     ///< arrivals per phase
    int missing = 0;      ///< arrivals missing in this phase
    int bytes = 0;        ///< bytes still expected in this phase
    std::uint32_t phase = 0;
    Side block;   ///< the block's threads, and copies from global memory
    Side others;  ///< other blocks' threads, and copies from blocks: for waits with Scope::cluster
    std::vector<Waiting> waiting;

    Side& side(CopySource source) { return source == CopySource::global ? block : others; }
    const Side& side(CopySource source) const { return source == CopySource::global ? block : others; }
  };

  std::string find(int thread, std::uint32_t address, const char* what, Mbarrier*& found);
  std::string one_too_many(std::uint32_t address) const;
  void pass_on(const Mbarrier& mbarrier, int thread, Scope scope);
  void finish_phase(Mbarrier& mbarrier);

  Clocks& clocks_;
  SharedMemory& shared_;
  bool checks_;
  std::function<void(int thread)> wake_;
  std::map<std::uint32_t, Mbarrier> list_;
};

}  // namespace fa2::interpreter
