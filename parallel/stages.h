// The pipeline of groups of heads: while a group is computed, the tensors of the next one arrive and the results of the one before go
// home.
#pragma once

#include <fa2/communicator.h>
#include <parallel/stream_pair.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fa2 {

/// What happens at the same time, by groups. The exchange runs beside the kernels: first the completion, then the computation. A stage
/// begins when the one before it has ended, its exchange too.
struct Stage {
  std::optional<int> gathers = std::nullopt;  ///< exchange: its tensors arrive
  std::optional<int> returns = std::nullopt;  ///< exchange: its results go home
  std::optional<int> completes =
      std::nullopt;  ///< kernels: its results, which have come home, go to their places
  std::optional<int> computes = std::nullopt;  ///< kernels: attention, or its gradients
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Returns the stages of `groups` groups. Group g uses memory number g % 2 of every kind.
std::vector<Stage> stages_of(int groups, bool with_returns);

/// Runs all stages. Kernels run on `stream`, and exchanges on that of `streams`; later work on `stream` follows both. An Engine has
///   transfers_of(stage): returns the messages of what the stage gathers and returns
///   prepare(group), complete(group), compute(group): enqueue kernels on `stream`. prepare() makes the group's messages.
template <class Engine>
void run_stages(const std::vector<Stage>& stages, Communicator& communicator, StreamPair& streams,
                Stream stream, const Engine& engine) {
  // Also after an error: the workspace's next user must not meet exchanges that are in flight.
  struct Join {
    StreamPair& streams;
    Stream stream;
    ~Join() { streams.join(stream); }
  } const join{streams, stream};
  for (const Stage& stage : stages) {
    // Before the exchange and the computation begin together: an exchange that begins later finds no SM that persistent blocks do not hold.
    if (stage.gathers) engine.prepare(*stage.gathers);
    streams.meet(stream);
    const std::vector<Transfer>& transfers = engine.transfers_of(stage);
    const std::uint64_t number =
        communicator.exchange(transfers.data(), transfers.size(), streams.exchanges());
    if (stage.completes) engine.complete(*stage.completes);
    if (stage.computes) engine.compute(*stage.computes);
    communicator.wait(number);
  }
}

}  // namespace fa2
