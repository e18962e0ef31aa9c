// What one rank's plan runs on: an engine, its messages, and the memory in which they begin and end.
#pragma once

#include <parallel/message_carrier.h>
#include <runtime/device.h>
#include <runtime/stream_memory.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace fa2 {

/// The workspace of a run: the caller's, else memory of the stream.
class RunMemory {
 public:
  RunMemory(const ScratchPool& pool, std::size_t bytes, void* given, Stream stream) : data_(given) {
    if (given != nullptr || bytes == 0) return;
    borrowed_ = pool.take(bytes, stream);
    data_ = borrowed_->data();
  }

  /// Calls run(workspace). After an error memory of the stream is never returned, because messages may still arrive in it.
  template <class Run>
  void use(const Run& run) try {
    run(data());
  } catch (...) {
    if (borrowed_) borrowed_->abandon();
    throw;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  std::optional<StreamMemory> borrowed_;
};

/// One rank's engine, for one run at a time. All members must be set before the first.
template <class Engine>
struct RankRuns {
  int device = 0;
  std::shared_ptr<const ScratchPool> scratch;
  MessageCarrier carrier;
  std::unique_ptr<Engine> engine;

  explicit RankRuns(Communicator& communicator) : carrier(communicator) {}
  RankRuns(const RankRuns&) = delete;
  RankRuns& operator=(const RankRuns&) = delete;
  /// Waits end first, because kernels and memory are freed only behind them.
  ~RankRuns() {
    const ScopedContext current(device);
    carrier.end_waits();
    engine.reset();
    carrier.disconnect();
  }

  /// Returns the bytes of workspace that callers may give.
  std::size_t workspace_bytes() const { return carrier.window() ? 0 : engine->workspace_bytes(); }
  /// Returns the bytes that ranks map.
  std::size_t peer_bytes() const { return carrier.window() ? carrier.window()->bytes() : 0; }

  /// Returns the memory of a run: the window, or a workspace. `given`: the caller's, or null.
  RunMemory memory(void* given, Stream stream) const {
    return {*scratch, workspace_bytes(), carrier.window() ? carrier.window()->data() : given, stream};
  }
  /// Calls run(workspace), whose exchanges are those of a pass.
  template <class Run>
  void carry(Pass pass, RunMemory memory, Stream stream, const Run& run) {
    memory.use([&](std::byte* workspace) { carrier.carry(pass, stream, [&] { run(workspace); }); });
  }
};

}  // namespace fa2
