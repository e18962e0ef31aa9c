// The two streams of a run: kernels on the caller's, exchanges beside them.
#pragma once

#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/log.h>
#include <runtime/stream_event.h>

#include <array>
#include <exception>

namespace fa2 {

/// A stream for exchanges, and events that order it with others. On the interpreter both streams are null.
class StreamPair {
 public:
  /// Needs the current context.
  StreamPair() = default;

  Stream exchanges() const { return exchanges_.get(); }

  /// Lets exchanges begin only when all work on `kernels` so far has ended. Begins the first stage (stages.h).
  void begin(Stream kernels) {
    is_odd_ = false;
    for (StreamEvent& event : kernels_) event.record(kernels);
    exchanged_[1].record(kernels);
  }
  /// Lets the stage's exchange begin only when the kernels of the stage before the last have ended.
  void begin_exchange() { kernels_[is_odd_].hold(exchanges()); }
  /// Ends the stage's exchange, and lets its kernels begin only when the exchange of the stage before has ended.
  void begin_kernels(Stream kernels) {
    exchanged_[is_odd_].record(exchanges());
    exchanged_[!is_odd_].hold(kernels);
  }
  void end_stage(Stream kernels) {
    kernels_[is_odd_].record(kernels);
    is_odd_ = !is_odd_;
  }

  /// Lets later work on `kernels` begin only when all exchanges so far have ended. Logs errors.
  void join(Stream kernels) noexcept try {
    joined_.record(exchanges());
    joined_.hold(kernels);
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }

 private:
  OwnedStream exchanges_;
  std::array<StreamEvent, 2> kernels_;    ///< the ends of the last two stages' kernels
  std::array<StreamEvent, 2> exchanged_;  ///< and of their exchanges
  StreamEvent joined_;
  bool is_odd_ = false;  ///< the stage's number
};

}  // namespace fa2
