// The Communicator of NCCL.
#pragma once

#include <fa2/communicator.h>
#include <fa2/nccl_communicator.h>
#include <runtime/nccl.h>

#include <chrono>
#include <memory>
#include <string>

namespace fa2 {

class OwnedStream;

/// A communicator that is the caller's, or its own.
class NcclCommunicator : public Communicator {
 public:
  enum class Owner { caller, self };

  /// `nccl` must outlive the communicator. With Owner::self, `comm` may still be ncclInProgress. @throws CommunicationError.
  NcclCommunicator(const Nccl& nccl, ncclComm* comm, Owner owner, const NcclOptions& options);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  static std::unique_ptr<Communicator> split(const Nccl& nccl, ncclComm* comm, const NcclOptions& options);
  static std::unique_ptr<Communicator> init(const Nccl& nccl, const NcclId& id, int ranks, int rank,
                                            const NcclOptions& options);

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  bool allows_peer_memory() const noexcept override { return peer_memory_; }
  std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream stream) override;
  void all_gather(const void* mine, std::size_t bytes, void* all) override;
  void check() override;

 private:
  int number_of(NcclResult (*get)(const ncclComm*, int*), const char* function);
  NcclResult enqueue(const Transfer& transfer, Stream stream);
  void settle(NcclResult result, const char* function);
  void wait_for(const OwnedStream& stream);
  [[noreturn]] void time_out(const std::string& what);
  [[noreturn]] void fail(const std::string& what, NcclResult result);
  void require_working() const;

  const Nccl& nccl_;
  ncclComm* comm_;  ///< null once aborted
  Owner owner_;
  std::chrono::milliseconds timeout_;
  bool peer_memory_;
  int rank_ = -1;
  int size_ = 0;
  int device_ = 0;
  std::uint64_t exchanges_ = 0;
  std::string failure_;  ///< of the first error
  NcclResult result_ = kNcclSuccess;
};

}  // namespace fa2
