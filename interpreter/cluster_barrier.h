// barrier.cluster: the barrier of all threads of a cluster.
#pragma once

#include <interpreter/clocks.h>

#include <cstdint>
#include <functional>
#include <interpreter/machine.cuh>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// A GPU does not wait for threads that have ended. Here that is an error: every thread arrives as often as all
/// others. Threads are numbered through the cluster. Functions that return a string return the violated rule as
/// a sentence; empty if none.
class ClusterBarrier {
 public:
  /// `wake(thread)` resumes a thread that waited.
  ClusterBarrier(Clocks& clocks, int threads, std::function<void(int thread)> wake);
  void reset();

  std::string arrive(int thread, Site site);
  /// Sets `waits` unless all threads have arrived. A thread that waits is woken later.
  std::string wait(int thread, bool& waits);
  /// `thread` has ended. `site` receives where others arrived if it should have, too.
  std::string end(int thread, Site& site);

  /// Returns a description: "barrier.cluster.wait (32 of 128 threads of the cluster have arrived)".
  std::string describe() const;

 private:
  struct Thread {
    std::uint32_t arrived = 0, waited = 0;  ///< phases
    bool waits = false;
  };
  void finish_phase();

  Clocks& clocks_;
  std::function<void(int thread)> wake_;
  std::vector<Thread> threads_;
  int arrived_ = 0;          ///< threads, in this phase
  int ended_ = -1;           ///< a thread that has ended, if any
  std::uint32_t phase_ = 0;  ///< completed phases
  Site arrived_at_;          ///< of the last arrival
  Times joining_;            ///< passed on by a wait for this phase
  Times completed_;          ///< passed on by a wait for the last phase
};

}  // namespace fa2::interpreter
