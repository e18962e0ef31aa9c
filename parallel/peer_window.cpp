// Ranks tell each other where their memory is, then whether they could map that of all others.
#include <fmt/format.h>
#include <parallel/agreement.h>
#include <parallel/peer_window.h>
#include <runtime/device.h>
#include <runtime/log.h>

#include <chrono>
#include <random>
#include <thread>

namespace fa2 {
namespace {

constexpr std::size_t kAlignment = 256;
/// How long ranks on the interpreter, whose streams cannot wait, wait for each other.
constexpr std::chrono::seconds kPatience{60};

std::size_t flag_bytes_of(std::size_t flags) {
  return (flags * sizeof(StreamFlag) + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t drawn_id() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;
}

/// Returns the first reason, of the rank that gives it; empty if all ranks succeeded.
std::string first_failure(Communicator& communicator, const std::string& mine) {
  const std::vector<std::string> all = gather_texts(communicator, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  return {};
}

/// Runs `work`. Returns the message of what it throws.
template <class Work>
std::string failure_of(const Work& work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Returns why ranks cannot map each other's memory; empty if they may try.
std::string obstacle(const std::vector<ProcessIdentity>& all) {
  for (std::size_t a = 0; a < all.size(); ++a) {
    if (!all[a].has_host_of(all[0])) return fmt::format("rank {} is on another host than rank 0", a);
    for (std::size_t b = 0; b < a; ++b)
      // A call of the driver may wait for one rank's stream, and keep the other rank from the call for which that stream waits.
      if (!interpreting() && all[a] == all[b])
        return fmt::format("ranks {} and {} are threads of one process", b, a);
  }
  return {};
}

}  // namespace

PeerWindow::PeerWindow(Communicator& communicator, std::size_t bytes)
    : communicator_(communicator),
      rank_(communicator.rank()),
      bytes_(bytes),
      flag_bytes_(flag_bytes_of(1 + kFlagsOfRank * static_cast<std::size_t>(communicator.size()))),
      own_(flag_bytes_ + bytes) {
  const OwnedStream stream;
  const StreamFlag one = 1;
  own_.upload(&one, sizeof one, stream.get());
}

std::shared_ptr<PeerWindow> PeerWindow::make(Communicator& communicator, std::size_t bytes,
                                             std::string& why_not) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<ProcessIdentity> processes(ranks);
  communicator.all_gather(&process_identity(), sizeof(ProcessIdentity), processes.data());
  why_not = obstacle(processes);  // before memory is allocated in vain
  if (!why_not.empty()) return nullptr;
  std::shared_ptr<PeerWindow> made;
  why_not = first_failure(communicator, failure_of([&] { made.reset(new PeerWindow(communicator, bytes)); }));
  if (!why_not.empty()) return nullptr;
  std::vector<PeerAddress> all(ranks);
  communicator.all_gather(&made->own_.address(), sizeof(PeerAddress), all.data());
  why_not = first_failure(communicator, failure_of([&] { made->open(all); }));
  if (!why_not.empty()) return nullptr;
  std::vector<std::uint64_t> ids(ranks);
  const std::uint64_t id = drawn_id();
  communicator.all_gather(&id, sizeof id, ids.data());
  made->id_ = ids[0];
  return made;
}

void PeerWindow::open(const std::vector<PeerAddress>& all) {
  peers_.resize(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (static_cast<int>(rank) != rank_) peers_[rank] = std::make_unique<PeerMapping>(all[rank]);
}

std::byte* PeerWindow::mapped(int rank) const {
  return rank == rank_ ? own_.data() : peers_[static_cast<std::size_t>(rank)]->data();
}

StreamFlag* PeerWindow::flag(std::byte* base, int rank, Kind kind) const {
  return reinterpret_cast<StreamFlag*>(base) + 1 + static_cast<std::size_t>(rank) * kFlagsOfRank +
         static_cast<std::size_t>(kind);
}

StreamFlag* PeerWindow::kernel_flags(std::byte* base, int rank, Kind kind) const {
  return flag(base, rank, Kind::allowed) + kKinds + static_cast<std::size_t>(kind) * kPutBlocks;
}

PutPeer PeerWindow::flags_with(int peer) const {
  if (peer == rank_) return {};
  return {.allow = kernel_flags(mapped(peer), rank_, Kind::allowed),
          .deliver = kernel_flags(mapped(peer), rank_, Kind::delivered),
          .allowed = kernel_flags(own_.data(), peer, Kind::allowed),
          .delivered = kernel_flags(own_.data(), peer, Kind::delivered),
          .messages = 0,
          .sends = 0};
}

void PeerWindow::raise(StreamFlag* flag, Stream stream) const {
  fa2::raise(flag, reinterpret_cast<const StreamFlag*>(own_.data()), stream);
}

void PeerWindow::await(StreamFlag* flag, int peer, Stream stream) {
  if (!interpreting()) return fa2::await(flag, stream);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!has_come(flag)) {
    communicator_.check();
    if (std::chrono::steady_clock::now() > end)
      throw CommunicationError(
          fmt::format("rank {}: rank {} did not come within {} s", rank_, peer, kPatience.count()), rank_);
    std::this_thread::yield();
  }
}

void PeerWindow::begin_run(Stream stream) {
  require_working();
  if (!interpreting() && !is_capturing(stream)) last_run_.hold(stream);
}

void PeerWindow::end_run(Stream stream) {
  if (!interpreting() && !is_capturing(stream)) last_run_.record(stream);
}

void PeerWindow::break_off(Stream stream) noexcept try {
  is_broken_ = true;
  end_run(stream);
} catch (const std::exception& error) {
  log().warn("{}", error.what());
}

void PeerWindow::end_waits() noexcept try {
  if (last_run_.has_passed()) return;
  is_broken_ = true;
  log().warn("rank {}: a plan is destroyed while a run waits for other ranks; its results are undefined",
             rank_);
  const OwnedStream stream;
  const std::vector<StreamFlag> ones(1 + kFlagsOfRank * static_cast<std::size_t>(communicator_.size()), 1);
  // A stream lowers the flag for which it has waited, so each wait needs its own turn.
  while (!last_run_.has_passed()) {
    own_.upload(ones.data(), ones.size() * sizeof(StreamFlag), stream.get());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
} catch (const std::exception& error) {
  log().warn("{}", error.what());
}

void PeerWindow::require_working() const {
  if (is_broken_)
    throw CommunicationError(
        fmt::format("rank {}: an earlier run on this communicator was not completed: make a new communicator",
                    rank_),
        rank_);
}

}  // namespace fa2
