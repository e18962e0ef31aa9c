// The pipeline of groups of heads: while a group is computed, the tensors of the next one arrive and the results of the one before go
// home.
#pragma once

#include <fa2/communicator.h>
#include <parallel/message_carrier.h>
#include <parallel/stream_pair.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fa2 {

/// How many groups have memory of each kind at once. Group g uses slot g % kSlots. An exchange has the time of two groups, because persistent
/// blocks may hold every SM until they end. With the time of one, two slots would suffice.
inline constexpr int kSlots = 3;
/// Where slots begin in a workspace; bytes.
using SlotOffsets = std::array<std::size_t, kSlots>;

/// What happens at about the same time, by groups. Kernels, first the completion, then the computation, follow the exchange of the stage
/// before. The exchange follows the kernels of the stage before the last.
struct Stage {
  std::optional<int> gathers = std::nullopt;  ///< exchange: its tensors arrive
  std::optional<int> returns = std::nullopt;  ///< exchange: its results go home
  std::optional<int> completes =
      std::nullopt;  ///< kernels: its results, which have come home, go to their places
  std::optional<int> computes = std::nullopt;  ///< kernels: attention, or its gradients
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Returns the stages of `groups` groups.
std::vector<Stage> stages_of(int groups, bool with_returns);

/// Returns the messages of all stages.
template <class Engine>
MessageLists messages_of(const std::vector<Stage>& stages, const Engine& engine) {
  MessageLists lists;
  for (const Stage& stage : stages) lists.push_back(engine.transfers_of(stage));
  return lists;
}

/// Runs all stages. Kernels run on `stream`, and exchanges on that of `streams`; later work on `stream` follows both. An Engine has
///   prepare(group, stream): enqueues what makes the group's messages
///   transfers_of(stage): returns the messages of what the stage gathers and returns
///   complete(group), compute(group): enqueue kernels on `stream`.
///
/// Messages are made before the kernels of the stage before. If they were made beside these, the exchange would find all SMs taken, and
/// wait until persistent blocks end. The first stage's messages are made on the stream of
/// exchanges, so that the second exchange follows at once.
template <class Engine>
void run_stages(const std::vector<Stage>& stages, MessageCarrier& carrier, StreamPair& streams, Stream stream,
                const Engine& engine) {
  // Also after an error: the workspace's next user must not meet exchanges that are in flight.
  struct Join {
    StreamPair& streams;
    Stream stream;
    ~Join() { streams.join(stream); }
  } const join{streams, stream};
  streams.allow_exchange(stream);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    streams.begin_exchange();
    if (i == 0 && stage.gathers) engine.prepare(*stage.gathers, streams.exchanges());
    const std::uint64_t number = carrier.exchange(
        [&]() -> const std::vector<Transfer>& { return engine.transfers_of(stage); }, streams.exchanges());
    streams.end_exchange(i);
    if (i + 1 < stages.size() && stages[i + 1].gathers) engine.prepare(*stages[i + 1].gathers, stream);
    streams.allow_exchange(stream);
    streams.begin_kernels(i, stream);
    if (stage.completes) engine.complete(*stage.completes);
    if (stage.computes) engine.compute(*stage.computes);
    carrier.wait(number);
  }
}

}  // namespace fa2
