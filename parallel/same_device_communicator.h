// Ranks that are threads and share a device, each with streams of its own.
#pragma once

#include <fa2/communicator.h>
#include <runtime/stream_event.h>

#include <cstdint>
#include <memory>

namespace fa2 {

/// Exchanges memory of one device, in the order of streams. The ranks tell each other pointers and events by `host`, which exchanges host
/// memory, and copies run on the receiver's stream. exchange() returns when all peers have made the same call and enqueued their
/// copies, so it waits as `host` does. It cannot be captured into a graph.
class SameDeviceCommunicator : public Communicator {
 public:
  /// `host` must outlive the communicator, and nothing else may use it.
  SameDeviceCommunicator(Communicator& host, int device);
  ~SameDeviceCommunicator() override;
  SameDeviceCommunicator(const SameDeviceCommunicator&) = delete;
  SameDeviceCommunicator& operator=(const SameDeviceCommunicator&) = delete;

  int rank() const noexcept override { return host_.rank(); }
  int size() const noexcept override { return host_.size(); }
  bool allows_peer_memory() const noexcept override { return host_.allows_peer_memory(); }
  std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream stream) override;
  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    host_.all_gather(mine, bytes, all);
  }
  void check() override { host_.check(); }

 private:
  /// What a sender tells: the data, and when it is ready.
  struct Offer {
    const void* data = nullptr;
    std::size_t bytes = 0;
    const StreamEvent* ready = nullptr;
  };

  /// What a receiver answers: when its copies have ended.
  struct Receipt {
    const StreamEvent* done = nullptr;
  };
  struct Events {
    StreamEvent ready;  ///< the data that this rank sends
    StreamEvent done;   ///< the copies of what it receives
  };

  void copy(const Transfer& transfer, const Offer& offer, Stream stream) const;

  Communicator& host_;
  int device_;
  std::uint64_t exchanges_ = 0;
  std::unique_ptr<Events> events_;
};

}  // namespace fa2
