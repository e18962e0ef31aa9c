// How the messages of one plan travel: by its communicator, or by copy engines or a kernel into memory that ranks map.
#pragma once

#include <fa2/communicator.h>
#include <parallel/peer_window.h>
#include <planning/plan.h>
#include <runtime/kernel.h>
#include <runtime/stream_event.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

enum class Pass : std::uint8_t { forward, backward };

/// The messages of a run, exchange by exchange.
using MessageLists = std::vector<std::vector<Transfer>>;

/// One thread at a time.
class MessageCarrier {
 public:
  /// `communicator` must outlive the carrier. Messages travel by it until connect().
  explicit MessageCarrier(Communicator& communicator) : communicator_(communicator) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  const std::shared_ptr<PeerWindow>& window() const { return window_; }

  /// From now on messages travel through a window, which runs use as their workspace. `passes`: the messages of a forward, and of a
  /// backward, all of them in the window. `put`: put_messages, for small messages beside which no other kernel runs, at most
  /// kMostPutMessages of an exchange between kMostPutRanks; null: copy engines. All ranks must call this, all with `put` or none.
  void connect(std::shared_ptr<PeerWindow> window, const std::array<MessageLists, 2>& passes,
               const std::shared_ptr<const Kernel>& put = nullptr);

  /// See PeerWindow.
  void end_waits() noexcept {
    if (window_) window_->end_waits();
  }
  /// Gives the window up. No run may follow.
  void disconnect() { window_.reset(); }

  /// Runs `run`, whose exchanges are those of a pass.
  template <class Run>
  void carry(Pass pass, Stream stream, const Run& run) {
    if (!window_) return run();
    begin(pass, stream);
    try {
      run();
    } catch (...) {
      window_->break_off(stream);
      throw;
    }
    window_->end_run(stream);
  }

  /// Enqueues the run's next exchange, of which messages() returns the transfers. Returns its number, for wait().
  template <class Messages>
  std::uint64_t exchange(const Messages& messages, Stream stream) {
    if (window_) return copy_next(stream), 0;
    const std::vector<Transfer>& transfers = messages();
    return communicator_.exchange(transfers.data(), transfers.size(), stream);
  }

  /// Returns when host code may read what was received. Must be called for each exchange.
  void wait(std::uint64_t number) {
    if (!window_) communicator_.wait(number);
  }

 private:
  struct Delivery {
    int to;
    std::vector<CopiedRows> copies;
  };
  /// An exchange through the window.
  struct Prepared {
    std::vector<int> from;  ///< other ranks that send to this one
    std::vector<Delivery> deliveries;
    std::shared_ptr<const Plan> put = nullptr;  ///< null: copy engines
  };

  static bool extend(CopiedRows& last, const CopiedRows& next, bool by_rows);
  void begin(Pass pass, Stream stream);
  void copy_next(Stream stream);
  std::vector<Prepared> prepared(const MessageLists& exchanges, bool by_rows) const;
  PutParams put_params(const Prepared& exchange) const;

  Communicator& communicator_;
  std::shared_ptr<PeerWindow> window_;
  std::array<std::vector<Prepared>, 2> passes_;
  std::vector<Prepared>::const_iterator next_;
};

}  // namespace fa2
