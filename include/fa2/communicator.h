// How ranks exchange data: the interface on which attention over sharded sequences stands.
#pragma once

#include <fa2/errors.h>
#include <fa2/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2 {

/// One message of a group. Messages of a pair of ranks in one direction match in the order in which both ranks list them.
struct Transfer {
  enum class Kind : std::uint8_t { send, receive };
  Kind kind = Kind::send;
  int peer = 0;           ///< the other rank; 0 .. size - 1; the own rank sends to itself
  void* data = nullptr;   ///< memory of the communicator's device; a send only reads it
  std::size_t bytes = 0;  ///< must be equal on both ranks; 0: nothing is sent

  constexpr bool sends() const { return kind == Kind::send; }
};

/// One rank's end of a group of ranks. NCCL's is in <fa2/nccl_communicator.h>; for MPI and others a program derives its own.
///
/// Order: all ranks must call exchange() and all_gather() in the same order. fa2 calls them in the order in which plans are made
/// and run, so all ranks must make and run the same plans in the same order.
/// Threads: one thread at a time calls a communicator. Different communicators may be used at the same time.
/// Ownership: a plan keeps a reference. The communicator must outlive its plans, and their captured graphs.
/// Errors: every function throws CommunicationError. After the first one, the communicator cannot be used any more.
/// Timeouts: fa2 starts no thread that watches. Host functions of fa2's communicators wait no longer than their timeout. Work on a
/// stream has none: the caller, who waits for the stream, must call check() from time to time until the stream is idle.
class FA2_API Communicator {
 public:
  virtual ~Communicator();

  virtual int rank() const noexcept = 0;  ///< returns 0 .. size() - 1
  virtual int size() const noexcept = 0;  ///< returns the number of ranks, >= 1

  /// Returns whether plans may exchange data through device memory that ranks map, without exchange(), where all ranks of the communicator
  /// can: processes of one host on GPUs that reach each other. It must be equal on all ranks. The default is false.
  virtual bool allows_peer_memory() const noexcept;

  /// Enqueues all transfers as one group, in which no transfer waits for another. Returns the number of this exchange: 0, 1, ...
  /// Until the group has ended on `stream`, received data must not be touched, and sent data only read.
  virtual std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream stream) = 0;

  /// Returns when host code may read what exchange `number` received. Communicators whose exchanges run on the stream have nothing
  /// to wait for, which is the default: their callers order streams by events. A wait includes all smaller numbers. Callers must wait
  /// for each exchange, and for none twice.
  virtual void wait(std::uint64_t number);

  /// Copies `bytes` of host memory of every rank to `all`, in rank order; `bytes` must be equal on all ranks. Returns when `all` is
  /// complete. Plans call it while they are made, never while they run. The default exchanges host memory and waits.
  virtual void all_gather(const void* mine, std::size_t bytes, void* all);

  /// Throws the first error of this communicator, asynchronous ones too. Does not wait.
  virtual void check() = 0;
};

/// Returns what is wrong with a group: peers that do not exist, and transfers without memory. For classes that implement exchange().
FA2_API std::vector<Violation> violations(const Communicator& communicator, const Transfer* transfers,
                                          std::size_t count);

}  // namespace fa2
