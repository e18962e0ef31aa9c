// Vector clocks: which thread's doings happened before which other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// A moment in the life of one thread or agent.
struct Epoch {
  std::int32_t who = 0;
  std::uint32_t clock = 0;  ///< 0: before everything
};

/// What a barrier passes on: the latest known moment of everyone.
using Times = std::vector<std::uint32_t>;

/// Of the threads of a block, and of agents: hardware that works beside them. What an agent does is a moment
/// of its own, which nobody knows before having waited for it.
class Clocks {
 public:
  explicit Clocks(int threads);
  /// All agents are gone.
  void reset();

  /// `name` stands in messages: "TMA loads of the mbarrier at 1024".
  int add_agent(std::string name);
  bool is_agent(int who) const { return static_cast<std::size_t>(who) >= threads_; }
  /// "thread 5", or the agent's name.
  std::string name(int who) const;

  Epoch now(int thread) const { return {thread, of(thread)[thread]}; }

  /// Whether `then` happened before what `thread` does now.
  bool knows(int thread, Epoch then) const { return of(thread)[then.who] >= then.clock; }

  bool anyone_knows(Epoch then) const;

  /// `thread` arrives: what it did is passed on, what it does next is not.
  void arrive(int thread, Times& joined);
  /// `thread` leaves: it knows of everything that was passed on.
  void leave(int thread, const Times& joined);
  /// `thread` has waited for an agent.
  void learn(int thread, Epoch then);

  /// fence.proxy.async by `thread`.
  void fence_proxy(int thread);
  /// Whether the one who wrote at `then` came to such a fence before `thread` was told of it. Agents need
  /// none.
  bool knows_fence(int thread, Epoch then) const;

 private:
  std::uint32_t* of(int thread) { return &times_[static_cast<std::size_t>(thread) * width_]; }
  const std::uint32_t* of(int thread) const { return &times_[static_cast<std::size_t>(thread) * width_]; }
  void widen();

  std::size_t threads_;
  std::size_t width_;                 ///< threads, and room for agents
  std::vector<std::uint32_t> times_;  ///< a row per thread: the latest moment of everyone it knows of
  std::vector<std::vector<std::uint32_t>> fences_;  ///< moments of each thread, ascending
  std::vector<std::string> agents_;
};

}  // namespace fa2::interpreter
