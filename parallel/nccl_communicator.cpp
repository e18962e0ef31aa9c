// Every call of NCCL is settled before the next: an own communicator answers ncclInProgress, and is asked until the timeout.
#include <fmt/format.h>
#include <parallel/nccl_communicator.h>
#include <parallel/request_check.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// The time between two questions, and until the last one.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  bool is_over() const { return Clock::now() > begin_ + timeout_; }
  /// Yields for a millisecond, because NCCL enqueues an exchange in less time than a pause takes; then sleeps.
  void pause() const {
    if (Clock::now() < begin_ + std::chrono::milliseconds(1)) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
  std::chrono::milliseconds timeout_;
};

NcclConfig config_of(const NcclOptions& options) {
  NcclConfig config;
  if (options.max_blocks > 0) config.max_blocks = options.max_blocks;
  return config;
}

/// Device memory, and a stream on which all_gather() exchanges.
struct Staging {
  explicit Staging(std::size_t bytes) : memory(bytes) {}
  DeviceBuffer memory;
  OwnedStream stream;
};

/// Keeps memory to which NCCL's kernels may still write, because freeing it would wait for them.
void abandon(std::unique_ptr<Staging> staging) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Staging>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(staging));
}

std::string reason(const Nccl& nccl, NcclResult result, const char* function) {
  return fmt::format("{}: {} ({})", function, nccl.get_error_string(result), result);
}

}  // namespace

NcclCommunicator::NcclCommunicator(const Nccl& nccl, ncclComm* comm, Owner owner, const NcclOptions& options)
    : nccl_(nccl), comm_(comm), owner_(owner), timeout_(options.timeout), peer_memory_(options.peer_memory) {
  settle(kNcclInProgress, "ncclCommGetAsyncError");
  rank_ = number_of(nccl.comm_user_rank, "ncclCommUserRank");
  size_ = number_of(nccl.comm_count, "ncclCommCount");
  device_ = number_of(nccl.comm_device, "ncclCommCuDevice");
}

NcclCommunicator::~NcclCommunicator() {
  if (owner_ != Owner::self || comm_ == nullptr) return;
  try {
    settle(nccl_.comm_finalize(comm_), "ncclCommFinalize");
    nccl_.comm_destroy(comm_);
  } catch (const CommunicationError&) {
    // settle() has aborted it, which frees it too.
  }
}

std::unique_ptr<Communicator> NcclCommunicator::split(const Nccl& nccl, ncclComm* comm,
                                                      const NcclOptions& options) {
  NcclCommunicator parent(nccl, comm, Owner::caller, options);
  NcclConfig config = config_of(options);
  ncclComm* child = nullptr;
  parent.settle(nccl.comm_split(comm, 0, parent.rank(), &child, &config), "ncclCommSplit");
  if (child == nullptr) parent.fail("ncclCommSplit has made no communicator", kNcclSuccess);
  return std::make_unique<NcclCommunicator>(nccl, child, Owner::self, options);
}

std::unique_ptr<Communicator> NcclCommunicator::init(const Nccl& nccl, const NcclId& id, int ranks, int rank,
                                                     const NcclOptions& options) {
  RequestCheck rules;
  if (ranks < 1) rules.add("ranks", ranks, "must be at least 1");
  if (rank < 0 || rank >= ranks) rules.add("rank", rank, fmt::format("must be in 0..{}", ranks - 1));
  rules.require_none();
  NcclConfig config = config_of(options);
  NcclUniqueId unique;
  std::ranges::copy(id, unique.bytes);
  ncclComm* comm = nullptr;
  const NcclResult result = nccl.comm_init_rank_config(&comm, ranks, unique, rank, &config);
  if (comm == nullptr || (result != kNcclSuccess && result != kNcclInProgress))
    throw CommunicationError(fmt::format("rank {}: {}", rank, reason(nccl, result, "ncclCommInitRankConfig")),
                             rank, result);
  return std::make_unique<NcclCommunicator>(nccl, comm, Owner::self, options);
}

std::uint64_t NcclCommunicator::exchange(const Transfer* transfers, std::size_t count, Stream stream) {
  require_working();
  if (auto found = violations(*this, transfers, count); !found.empty())
    throw InvalidRequest(std::move(found));
  if (std::all_of(transfers, transfers + count, [](const Transfer& each) { return each.bytes == 0; }))
    return exchanges_++;
  settle(nccl_.group_start(), "ncclGroupStart");
  NcclResult first = kNcclSuccess;  // of a transfer; the group must be ended in any case
  const char* function = nullptr;
  for (std::size_t i = 0; i < count && (first == kNcclSuccess || first == kNcclInProgress); ++i) {
    if (transfers[i].bytes == 0) continue;
    first = enqueue(transfers[i], stream);
    function = transfers[i].sends() ? "ncclSend" : "ncclRecv";
  }
  const NcclResult ended = nccl_.group_end();
  if (first != kNcclSuccess && first != kNcclInProgress) fail(reason(nccl_, first, function), first);
  settle(ended, "ncclGroupEnd");
  return exchanges_++;
}

NcclResult NcclCommunicator::enqueue(const Transfer& transfer, Stream stream) {
  if (transfer.sends())
    return nccl_.send(transfer.data, transfer.bytes, kNcclBytes, transfer.peer, comm_, stream);
  return nccl_.receive(transfer.data, transfer.bytes, kNcclBytes, transfer.peer, comm_, stream);
}

void NcclCommunicator::all_gather(const void* mine, std::size_t bytes, void* all) {
  require_working();
  const ScopedContext context(device_);
  auto staging = std::make_unique<Staging>(size_ * bytes);
  auto* const parts = static_cast<std::byte*>(staging->memory.data());
  staging->memory.upload(mine, bytes, rank_ * bytes, staging->stream.get());
  std::vector<Transfer> group;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    group.push_back({Transfer::Kind::send, peer, parts + rank_ * bytes, bytes});
    group.push_back({Transfer::Kind::receive, peer, parts + peer * bytes, bytes});
  }
  try {
    exchange(group.data(), group.size(), staging->stream.get());
    wait_for(staging->stream);
  } catch (const CommunicationError&) {
    if (owner_ == Owner::caller) abandon(std::move(staging));  // an own one has been aborted
    throw;
  }
  staging->memory.download(all, size_ * bytes, 0, staging->stream.get());
}

void NcclCommunicator::check() {
  require_working();
  NcclResult state = kNcclSuccess;
  const NcclResult result = nccl_.comm_get_async_error(comm_, &state);
  if (result != kNcclSuccess) state = result;
  if (state != kNcclSuccess && state != kNcclInProgress)
    fail(reason(nccl_, state, "ncclCommGetAsyncError"), state);
}

int NcclCommunicator::number_of(NcclResult (*get)(const ncclComm*, int*), const char* function) {
  int number = 0;
  settle(get(comm_, &number), function);
  return number;
}

void NcclCommunicator::settle(NcclResult result, const char* function) {
  const Patience patience(timeout_);
  while (result == kNcclInProgress) {
    const NcclResult asked = nccl_.comm_get_async_error(comm_, &result);
    if (asked != kNcclSuccess) result = asked;
    if (result != kNcclInProgress) break;
    if (patience.is_over()) time_out(function);
    patience.pause();
  }
  if (result != kNcclSuccess) fail(reason(nccl_, result, function), result);
}

void NcclCommunicator::wait_for(const OwnedStream& stream) {
  const Patience patience(timeout_);
  while (!stream.is_idle()) {
    check();
    if (patience.is_over()) time_out("all_gather()");
    patience.pause();
  }
}

void NcclCommunicator::time_out(const std::string& what) {
  fail(fmt::format("{}: no answer within {} ms: a rank does not make the same calls, or has ended", what,
                   timeout_.count()),
       kNcclSuccess);
}

void NcclCommunicator::fail(const std::string& what, NcclResult result) {
  failure_ = rank_ < 0 ? what : fmt::format("rank {}: {}", rank_, what);
  const char* const details = result == kNcclSuccess ? nullptr : nccl_.get_last_error(comm_);
  if (details != nullptr && *details != '\0') failure_ += fmt::format(": {}", details);
  result_ = result;
  if (owner_ == Owner::self) nccl_.comm_abort(std::exchange(comm_, nullptr));
  throw CommunicationError(failure_, rank_, result_);
}

void NcclCommunicator::require_working() const {
  if (!failure_.empty()) throw CommunicationError(failure_, rank_, result_);
}

NcclId make_nccl_id() {
  NcclUniqueId unique{};
  if (const NcclResult result = nccl().get_unique_id(&unique); result != kNcclSuccess)
    throw CommunicationError(reason(nccl(), result, "ncclGetUniqueId"), -1, result);
  NcclId id;
  std::ranges::copy(unique.bytes, id.begin());
  return id;
}

namespace {

ncclComm* required(ncclComm* comm) {
  RequestCheck rules;
  if (comm == nullptr) rules.add("comm", "null", "must be a communicator of NCCL");
  rules.require_none();
  return comm;
}

}  // namespace

std::unique_ptr<Communicator> borrow_nccl(ncclComm_t comm, const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(nccl(), required(comm), NcclCommunicator::Owner::caller, options);
}

std::unique_ptr<Communicator> split_nccl(ncclComm_t comm, const NcclOptions& options) {
  return NcclCommunicator::split(nccl(), required(comm), options);
}

std::unique_ptr<Communicator> init_nccl(const NcclId& id, int ranks, int rank, const NcclOptions& options) {
  return NcclCommunicator::init(nccl(), id, ranks, rank, options);
}

}  // namespace fa2
