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

/// A stream for exchanges, and events that order it with another, `kernels`. On the interpreter both streams are null.
class StreamPair {
 public:
  /// Needs the current context.
  StreamPair() = default;

  Stream exchanges() const { return exchanges_.get(); }

  /// Lets the next exchange begin only when all work on `kernels` so far has ended.
  void allow_exchange(Stream kernels) { allowed_.record(kernels); }
  void begin_exchange() { allowed_.hold(exchanges()); }
  /// Ends the exchange of a stage: 0, 1, ...
  void end_exchange(std::size_t stage) { exchanged_[stage % 2].record(exchanges()); }
  /// Lets later work on `kernels` begin only when the exchange of the stage before has ended.
  void begin_kernels(std::size_t stage, Stream kernels) {
    if (stage > 0) exchanged_[(stage - 1) % 2].hold(kernels);
  }

  /// Lets later work on `kernels` begin only when all exchanges so far have ended. Logs errors.
  void join(Stream kernels) noexcept try {
    exchanged_[0].record(exchanges());
    exchanged_[0].hold(kernels);
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }

 private:
  OwnedStream exchanges_;
  StreamEvent allowed_;
  std::array<StreamEvent, 2> exchanged_;  ///< the ends of the last two stages' exchanges
};

}  // namespace fa2
