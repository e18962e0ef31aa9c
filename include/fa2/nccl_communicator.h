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
  /// The time that a host function waits for other ranks, and for NCCL while that is ncclInProgress. It is long enough for ranks that
  /// compile kernels. Without effect inside NCCL's own calls on a blocking communicator, which borrow_nccl() may be given.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The largest number of thread blocks, each on an SM of its own, with which an own communicator moves data; 0: NCCL's choice.
  int max_blocks = 0;
};

/// What ranks need to know of each other before they can form a communicator: ncclUniqueId.
using NcclId = std::array<char, 128>;

/// Returns a new identity. One rank makes it, and hands it to all others. @throws Unavailable, CommunicationError.
FA2_API NcclId make_nccl_id();

/// Returns a communicator on the caller's, which must outlive it, and which the library must have made that fa2 finds: see
/// docs/environment.md. fa2 reports its errors and never aborts it: after a timeout, the caller must. While fa2's calls are in
/// flight, no other stream may use `comm`, because the order of calls must be the same on all ranks.
/// @throws Unavailable, CommunicationError.
FA2_API std::unique_ptr<Communicator> borrow_nccl(ncclComm_t comm, const NcclOptions& options = {});

/// Returns an own communicator with the ranks of `comm` (ncclCommSplit), whose calls cannot interleave with other users'. All ranks must
/// call this, and none use `comm` meanwhile. Like all own communicators it does not block, and fa2 aborts it once after an
/// error or timeout, which ends its kernels. Its destructor waits until all graphs with its calls are destroyed, at most for the timeout.
/// @throws Unavailable, CommunicationError.
FA2_API std::unique_ptr<Communicator> split_nccl(ncclComm_t comm, const NcclOptions& options = {});

/// Returns rank `rank` of a new own communicator on the current device. All ranks must call this. @throws Unavailable,
/// CommunicationError, InvalidRequest.
FA2_API std::unique_ptr<Communicator> init_nccl(const NcclId& id, int ranks, int rank,
                                                const NcclOptions& options = {});

/// Sets the directories in which libnccl.so.2 is searched after those that are loaded, and before the loader's search path. No effect once
/// NCCL is open. Thread-safe.
FA2_API void set_nccl_search(std::vector<std::string> directories);

}  // namespace fa2
