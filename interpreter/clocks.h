// Vector clocks: they tell which action happened before which.
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

/// The latest known moment of every thread and agent; barriers pass it on.
using Times = std::vector<std::uint32_t>;

/// Clocks of the threads of a cluster, numbered block after block, and of agents: hardware that works
/// asynchronously. An agent's actions have moments of their own. A thread knows them only after it has waited
/// for the agent.
class Clocks {
 public:
  explicit Clocks(int threads_of_block, int blocks = 1);
  /// Removes all agents. `first_block`: index of the cluster's first block, for names.
  void reset(unsigned first_block = 0);

  /// Returns the rank of the block that has `thread`, and the thread's index there.
  int block_of(int thread) const { return thread / threads_of_block_; }
  int index_in_block(int thread) const { return thread % threads_of_block_; }

  /// Returns the new agent's number. `name` appears in messages: "TMA loads of the mbarrier at 1024".
  int add_agent(std::string name);
  bool is_agent(int who) const { return static_cast<std::size_t>(who) >= threads_; }
  /// Returns "thread 5", in a cluster of several blocks "thread 5 of block 2", or an agent's name.
  std::string name(int who) const;
  /// Returns " of block 2", or nothing if the cluster has one block.
  std::string of_block(int rank) const;

  Epoch now(int thread) const { return {thread, of(thread)[thread]}; }

  /// Returns whether `then` happened before what `thread` does now.
  bool knows(int thread, Epoch then) const { return of(thread)[then.who] >= then.clock; }

  /// Returns whether any thread of a block knows `then`.
  bool block_knows(int rank, Epoch then) const;
  /// Returns whether `thread` knows that the block has begun.
  bool knows_block(int thread, int rank) const;

  /// Returns the moment of what `thread` does now; what it does next comes later.
  Epoch pass(int thread) { return {thread, of(thread)[thread]++}; }

  /// `thread` arrives: passes on what it did so far, but nothing that it does next.
  void arrive(int thread, Times& joined);
  /// `thread` leaves: learns everything that was passed on.
  void leave(int thread, const Times& joined);
  /// `thread` has waited for an agent.
  void learn(int thread, Epoch then);

  /// Notes a fence.proxy.async by `thread`, for its block's shared memory or that of the cluster.
  void fence_proxy(int thread, bool cluster);
  /// Returns whether a fence.proxy.async for the memory of the block `rank` lies between the write at `then` and what
  /// `thread` does now: the writer's, before `thread` synchronised with it, or one by `thread` itself, after that.
  /// Agents need no fence.
  bool knows_fence(int thread, Epoch then, int rank) const;

 private:
  struct Fences {
    std::vector<std::uint32_t> moments;  ///< ascending
    Times known;                         ///< what the thread knew at the last one
  };
  const Fences& fences_for(int thread, int rank) const;
  std::uint32_t* of(int thread) { return &times_[static_cast<std::size_t>(thread) * width_]; }
  const std::uint32_t* of(int thread) const { return &times_[static_cast<std::size_t>(thread) * width_]; }
  void widen();

  int threads_of_block_, blocks_;
  unsigned first_block_ = 0;
  std::size_t threads_;
  std::size_t width_;                   ///< threads, plus room for agents
  std::vector<std::uint32_t> times_;    ///< one row per thread: the latest moment it knows of each thread and
                                        ///< agent
  std::vector<Fences> fences_;          ///< of each thread, for its block's memory
  std::vector<Fences> cluster_fences_;  ///< those of them that are for the memory of the cluster
  std::vector<std::string> agents_;
};

}  // namespace fa2::interpreter
