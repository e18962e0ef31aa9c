// The two streams of a run: kernels on the caller's, exchanges beside them.
#pragma once

#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/log.h>
#include <runtime/stream_event.h>

#include <array>
#include <cstddef>
#include <exception>

namespace fa2 {

/// A stream for exchanges, and events that order it with others. On the interpreter both streams are null.
class StreamPair {
 public:
  /// Needs the current context.
  StreamPair() = default;

  Stream exchanges() const { return exchanges_.get(); }

  /// Lets exchanges begin only when all work on `kernels` so far has ended. Stages 0, 1, ... follow (stages.h).
  void begin(Stream kernels) {
    for (StreamEvent& event : kernels_) event.record(kernels);
  }
  /// Lets the stage's exchange begin only when the kernels of the stage before the last have ended.
  void begin_exchange(std::size_t stage) { kernels_[stage % 2].hold(exchanges()); }
  /// Ends the stage's exchange, and lets its kernels begin only when the exchange of the stage before has ended.
  void begin_kernels(std::size_t stage, Stream kernels) {
    exchanged_[stage % 2].record(exchanges());
    if (stage > 0) exchanged_[(stage - 1) % 2].hold(kernels);
  }
  void end_kernels(std::size_t stage, Stream kernels) { kernels_[stage % 2].record(kernels); }

  /// Lets later work on `kernels` begin only when all exchanges so far have ended. Logs errors.
  void join(Stream kernels) noexcept try {
    exchanged_[0].record(exchanges());
    exchanged_[0].hold(kernels);
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }

 private:
  OwnedStream exchanges_;
  std::array<StreamEvent, 2> kernels_;    ///< the ends of the last two stages' kernels
  std::array<StreamEvent, 2> exchanged_;  ///< and of their exchanges
};

}  // namespace fa2
