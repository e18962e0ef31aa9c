// Ranks that are threads of one process: for the interpreter, for several ranks on one GPU, and for tests.
#pragma once

#include <fa2/communicator.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

struct ThreadGroupOptions {
  /// The time that a rank waits for another. Afterwards the group has failed, and every rank gets the same error.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// When received data arrives. False: as soon as both ranks have enqueued it. True: in Communicator::wait(); until then the memory
  /// holds bytes of 0xff, NaN in every float format. So do the interpreter's asynchronous copies.
  bool late = false;
  /// Other than 0: ranks pause at random before each call, for up to 200 us.
  std::uint64_t seed = 0;
  /// Absent: ranks exchange host memory, without streams. Present: memory of this device, in the order of streams, for several ranks on
  /// one GPU. Then exchange() waits for its peers, memory in flight is not checked, and `late` is ignored.
  std::optional<int> device = std::nullopt;
  /// Whether plans may exchange data through memory that ranks map. Then the rules below are not checked. For the interpreter alone.
  bool peer_memory = false;
};

class Mailboxes;

/// A group of ranks whose transfers are checked. A broken rule is a CommunicationError on every rank:
///   - both ranks of a message name the same number of bytes;
///   - nothing writes to memory that is being sent, and with `late` to memory that is being received, before wait() returns;
///   - every rank waits for each of its exchanges, and no message is left over.
/// A timeout says which rank waits for which. A rank that waits for one that has ended gets its error at once.
/// Without a device, streams are ignored. Thread-safe; each communicator as Communicator says.
class ThreadGroup {
 public:
  explicit ThreadGroup(int ranks, const ThreadGroupOptions& options = {});
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Returns a rank's end, which lives as long as the group.
  Communicator& communicator(int rank);

  /// Calls body(communicator) on a thread per rank, and returns when all have ended. Then checks that nothing is left over. The
  /// first exception of a rank makes the group fail, and is rethrown.
  void run(const std::function<void(Communicator&)>& body);

  /// @throws CommunicationError that lists messages without a partner and exchanges that no rank has waited for.
  void require_settled();

 private:
  std::unique_ptr<Mailboxes> mailboxes_;
  std::vector<std::unique_ptr<Communicator>> on_host_;
  std::vector<std::unique_ptr<Communicator>> on_device_;
};

}  // namespace fa2
