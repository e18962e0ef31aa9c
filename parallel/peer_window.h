// Device memory of each rank that the others can write: through it data travels by copy engines, which need no SM.
#pragma once

#include <fa2/communicator.h>
#include <runtime/peer_memory.h>
#include <runtime/stream_event.h>
#include <runtime/stream_flag.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <templates/attention/rows/put_params.cuh>
#include <vector>

namespace fa2 {

/// Memory of equal size on every rank, and flags. Plans of one communicator share it, one run at a time. Needs the current context, also
/// at destruction.
class PeerWindow {
 public:
  /// Returns a window of `bytes`, which must be equal on all ranks, or null and why on every rank. All ranks must call this, on one device
  /// each. @throws CommunicationError.
  static std::shared_ptr<PeerWindow> make(Communicator& communicator, std::size_t bytes,
                                          std::string& why_not);

  PeerWindow(const PeerWindow&) = delete;
  PeerWindow& operator=(const PeerWindow&) = delete;

  std::uint64_t id() const { return id_; }  ///< the same on all ranks, and of no other window
  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return own_.data() + flag_bytes_; }
  /// Returns another rank's data().
  std::byte* data_of(int rank) const { return mapped(rank) + flag_bytes_; }

  /// Tells `peer`, after the work on `stream`, that this rank is ready for its data.
  void allow(int peer, Stream stream) const { raise(flag_of(peer, Kind::allowed), stream); }
  /// Tells `peer` that all data copied on `stream` so far has arrived.
  void deliver(int peer, Stream stream) const { raise(flag_of(peer, Kind::delivered), stream); }
  /// Let later work on `stream` begin only when `peer` has said so.
  void await_allowed(int peer, Stream stream) { await(own_flag(peer, Kind::allowed), peer, stream); }
  void await_delivered(int peer, Stream stream) { await(own_flag(peer, Kind::delivered), peer, stream); }

  /// Returns the flags that kernels of this rank and of `peer` have for each other, without messages.
  PutPeer flags_with(int peer) const;

  /// Lets a run on `stream` begin only when all others have ended. Captured runs are ordered by who launches their graphs.
  void begin_run(Stream stream);
  void end_run(Stream stream);

  /// Ends a run that has failed. Other ranks may wait for the rest of it, so later runs throw.
  void break_off(Stream stream) noexcept;
  /// Ends the waits of streams for ranks that do not come, and returns when all runs have ended. Later runs throw. Does nothing if no run
  /// is in flight.
  void end_waits() noexcept;

 private:
  enum class Kind : std::uint8_t { allowed, delivered };
  static constexpr std::size_t kKinds = 2, kFlagsOfRank = kKinds * (1 + kPutBlocks);

  PeerWindow(Communicator& communicator, std::size_t bytes);

  void require_working() const;
  void open(const std::vector<PeerAddress>& all);
  std::byte* mapped(int rank) const;
  StreamFlag* flag(std::byte* base, int rank, Kind kind) const;
  /// Returns kPutBlocks flags.
  StreamFlag* kernel_flags(std::byte* base, int rank, Kind kind) const;
  StreamFlag* own_flag(int peer, Kind kind) const { return flag(own_.data(), peer, kind); }
  StreamFlag* flag_of(int peer, Kind kind) const { return flag(mapped(peer), rank_, kind); }
  void raise(StreamFlag* flag, Stream stream) const;
  void await(StreamFlag* flag, int peer, Stream stream);

  Communicator& communicator_;
  int rank_;
  std::size_t bytes_, flag_bytes_;
  std::uint64_t id_ = 0;
  SharedBuffer own_;
  std::vector<std::unique_ptr<PeerMapping>> peers_;  ///< null for the own rank
  StreamEvent last_run_;
  bool is_broken_ = false;
};

}  // namespace fa2
