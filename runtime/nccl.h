// NCCL, opened at run time: a table of its functions, declared here because its header is not needed.
#pragma once

#include <runtime/shared_library.h>

#include <climits>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

struct ncclComm;

namespace fa2 {

/// ncclResult_t.
using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclInProgress = 7;

/// ncclDataType_t: ncclInt8.
inline constexpr int kNcclBytes = 0;

/// ncclUniqueId.
struct NcclUniqueId {
  char bytes[128];
};

/// ncclConfig_t of 2.18, the oldest version that fa2 takes. Later ones append fields, and go by `size` and `version`.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 0;  ///< calls return ncclInProgress instead of waiting
  int cluster_size = kUndefined;
  int min_blocks = kUndefined;
  int max_blocks = kUndefined;
  const char* network = nullptr;
  int split_share = kUndefined;
};

/// X(field, NCCL function, its type). NCCL 2.18 has all of them.
#define FA2_NCCL_FUNCTIONS(X)                                                            \
  X(get_error_string, ncclGetErrorString, const char*(NcclResult))                       \
  X(get_last_error, ncclGetLastError, const char*(ncclComm*))                            \
  X(get_unique_id, ncclGetUniqueId, NcclResult(NcclUniqueId*))                           \
  X(comm_init_rank_config, ncclCommInitRankConfig,                                       \
    NcclResult(ncclComm**, int, NcclUniqueId, int, NcclConfig*))                         \
  X(comm_split, ncclCommSplit, NcclResult(ncclComm*, int, int, ncclComm**, NcclConfig*)) \
  X(comm_count, ncclCommCount, NcclResult(const ncclComm*, int*))                        \
  X(comm_user_rank, ncclCommUserRank, NcclResult(const ncclComm*, int*))                 \
  X(comm_device, ncclCommCuDevice, NcclResult(const ncclComm*, int*))                    \
  X(comm_get_async_error, ncclCommGetAsyncError, NcclResult(ncclComm*, NcclResult*))     \
  X(comm_finalize, ncclCommFinalize, NcclResult(ncclComm*))                              \
  X(comm_destroy, ncclCommDestroy, NcclResult(ncclComm*))                                \
  X(comm_abort, ncclCommAbort, NcclResult(ncclComm*))                                    \
  X(group_start, ncclGroupStart, NcclResult())                                           \
  X(group_end, ncclGroupEnd, NcclResult())                                               \
  X(send, ncclSend, NcclResult(const void*, std::size_t, int, int, ncclComm*, void*))    \
  X(receive, ncclRecv, NcclResult(void*, std::size_t, int, int, ncclComm*, void*))

/// An open NCCL. Immutable; its functions are thread-safe for different communicators.
struct Nccl {
  /// @throws Unavailable if a function is missing, or the version is older than 2.18.
  explicit Nccl(SharedLibrary opened);

  SharedLibrary library;
  int version = 0;  ///< 10000 * major + 100 * minor + patch
#define FA2_FIELD(field, name, type) std::add_pointer_t<type> field = nullptr;
  FA2_NCCL_FUNCTIONS(FA2_FIELD)
#undef FA2_FIELD
};

/// Opens $FA2_NCCL and nothing else if it is set; otherwise the libnccl.so.2 that the process has loaded already, or else the one in
/// `directories` or on the loader's search path. @throws Unavailable that lists what was tried and what to install.
SharedLibrary open_nccl(const std::vector<std::string>& directories = {});

/// Returns NCCL, searched in the directories of set_nccl_search() (fa2/nccl_communicator.h). The first call opens it, and it is never closed. After a failure the next call tries again. @throws Unavailable.
const Nccl& nccl();

}  // namespace fa2
