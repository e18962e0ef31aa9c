// Communicators of NCCL, whose library is opened at run time.
#pragma once

#include <fa2/communicator.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

/// As nccl.h declares them, which programs may include as well.
struct ncclComm;
using ncclComm_t = ncclComm*;

namespace fa2 {

struct NcclOptions {
  /// How long a host function waits for other ranks, or for NCCL while it is ncclInProgress. The default lets ranks compile kernels.
  /// Calls of NCCL on a borrowed communicator that blocks are not limited.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Most thread blocks with which an own communicator moves data, each on an SM of its own; 0: NCCL's choice.
  int max_blocks = 0;
  /// Whether plans may exchange data by copy engines instead of NCCL, where ranks can map each other's memory.
  bool peer_memory = true;
};

/// What ranks need to know of each other before they can form a communicator: ncclUniqueId.
using NcclId = std::array<char, 128>;

/// Returns a new identity. One rank makes it, and hands it to all others. @throws Unavailable, CommunicationError.
FA2_API NcclId make_nccl_id();

/// Returns a communicator that uses `comm`, which must outlive it. The library that fa2 finds (docs/environment.md) must have made
/// `comm`. fa2 reports its errors and never aborts it; after a timeout the caller must. While calls of fa2 are in flight, nothing
/// else may use `comm`, because ranks would order the calls differently. @throws Unavailable, CommunicationError, InvalidRequest.
FA2_API std::unique_ptr<Communicator> borrow_nccl(ncclComm_t comm, const NcclOptions& options = {});

/// Returns an own communicator with the ranks of `comm` (ncclCommSplit), whose calls cannot interleave with those of other users. All
/// ranks must call this, and nothing else may use `comm` meanwhile. Own communicators do not block. After an error or a timeout fa2
/// aborts them, once, which ends their kernels. Their destructors wait for work in flight, at most for the timeout.
/// @throws Unavailable, CommunicationError, InvalidRequest.
FA2_API std::unique_ptr<Communicator> split_nccl(ncclComm_t comm, const NcclOptions& options = {});

/// Returns rank `rank` of a new own communicator on the current device. All ranks must call this. @throws Unavailable,
/// CommunicationError, InvalidRequest.
FA2_API std::unique_ptr<Communicator> init_nccl(const NcclId& id, int ranks, int rank,
                                                const NcclOptions& options = {});

/// Sets the directories in which libnccl.so.2 is searched after those that are loaded, and before the loader's search path. No effect once
/// NCCL is open. Thread-safe.
FA2_API void set_nccl_search(std::vector<std::string> directories);

}  // namespace fa2
