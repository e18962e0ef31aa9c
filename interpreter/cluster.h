// The blocks of one cluster: their threads take turns on one host thread, so that they can wait for each other.
#pragma once

#include <interpreter/block.h>
#include <interpreter/block_signals.h>
#include <interpreter/clocks.h>
#include <interpreter/cluster_barrier.h>

#include <interpreter/machine.cuh>
#include <memory>
#include <vector>

namespace fa2::interpreter {

/// Runs clusters one after the other, on one host thread. A launch without clusters has clusters of one block.
class Cluster {
 public:
  /// Makes a block the machine of this host thread's kernel.
  using Attach = void (*)(Machine*);

  Cluster(const BlockShape& shape, int blocks, Attach attach);

  /// Runs the cluster whose first block has index `first_block`, to its end.
  /// @throws KernelFault, Interrupted; then the object can be used again.
  void run(Block::Entry entry, const void* params, unsigned first_block, GlobalMemory& global,
           BlockSignals& signals);

  int size() const { return static_cast<int>(blocks_.size()); }
  Block& block(int rank) { return *blocks_[static_cast<std::size_t>(rank)]; }
  const Block& block(int rank) const { return *blocks_[static_cast<std::size_t>(rank)]; }
  /// Clocks of the threads of all blocks, and their agents.
  Clocks& clocks() { return clocks_; }
  ClusterBarrier& barrier() { return barrier_; }

 private:
  void schedule(unsigned seed);
  /// `order`: the warps of all blocks, counted through. Returns false if no thread could run.
  bool resume_ready_threads(const std::vector<int>& order);
  /// No thread can run: checks flags, completes one copy, or waits for other clusters. Returns false on deadlock.
  bool let_others_act();
  bool all_ended() const;
  [[noreturn]] void report_deadlock() const;

  BlockShape shape_;
  Clocks clocks_;
  ClusterBarrier barrier_;
  std::vector<std::unique_ptr<Block>> blocks_;  ///< by rank
  Attach attach_;
  BlockSignals* signals_ = nullptr;
};

}  // namespace fa2::interpreter
