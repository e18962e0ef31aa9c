// The plans of sharded attention that a context has made, for calls that name a problem and a communicator.
#pragma once

#include <fa2/context_parallel.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace fa2 {

/// Knows plans as long as callers keep them. Thread-safe.
class ParallelPlans {
 public:
  /// `problem`: normalized.
  void add(const AttentionProblem& problem, const Communicator& communicator,
           const ContextParallelPlan& plan) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const Known& known) { return known.plan.expired(); });
    known_.push_back({problem, &communicator, plan.impl()});
  }

  /// Returns the one that was added last.
  std::optional<ContextParallelPlan> find(const AttentionProblem& problem,
                                          const Communicator& communicator) const {
    const std::lock_guard lock(mutex_);
    for (auto known = known_.rbegin(); known != known_.rend(); ++known) {
      if (known->communicator != &communicator || known->problem != problem) continue;
      if (auto plan = known->plan.lock()) return ContextParallelPlan(std::move(plan));
    }
    return std::nullopt;
  }

 private:
  struct Known {
    AttentionProblem problem;
    const Communicator* communicator;
    std::weak_ptr<ContextParallelPlan::Impl> plan;
  };

  mutable std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace fa2
