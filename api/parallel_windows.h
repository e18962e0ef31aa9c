// The windows through which the plans of a communicator exchange data.
#pragma once

#include <parallel/peer_window.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace fa2 {

/// Knows windows as long as plans keep them. Thread-safe.
class ParallelWindows {
 public:
  /// Returns a window for plans that need `bytes` on this rank, which may be that of earlier plans; null and why on every rank if there is
  /// none. All ranks must call this.
  std::shared_ptr<PeerWindow> get(Communicator& communicator, std::size_t bytes, std::string& why_not);

 private:
  std::mutex mutex_;
  std::map<const Communicator*, std::weak_ptr<PeerWindow>> known_;
};

}  // namespace fa2
