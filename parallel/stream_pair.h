// The two streams of a run: kernels on the caller's, exchanges beside them.
#pragma once

#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/log.h>
#include <runtime/stream_event.h>

#include <exception>

namespace fa2 {

/// A stream for exchanges, and events that order it with others. On the interpreter both streams are null.
class StreamPair {
 public:
  /// Needs the current context.
  StreamPair() = default;

  Stream exchanges() const { return exchanges_.get(); }

  /// Lets later work of both streams begin only when all work so far has ended.
  void meet(Stream kernels) {
    follow(exchanges(), kernels, kernels_);
    follow(kernels, exchanges(), exchanged_);
  }

  /// Lets later work on `kernels` begin only when all exchanges so far have ended. Logs errors.
  void join(Stream kernels) noexcept try {
    follow(kernels, exchanges(), exchanged_);
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }

 private:
  static void follow(Stream later, Stream earlier, StreamEvent& event) {
    event.record(earlier);
    event.hold(later);
  }

  OwnedStream exchanges_;
  StreamEvent kernels_;
  StreamEvent exchanged_;
};

}  // namespace fa2
