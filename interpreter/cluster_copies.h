// Bulk copies between the shared memories of two blocks of a cluster.
#pragma once

#include <interpreter/clocks.h>
#include <interpreter/mbarriers.h>
#include <interpreter/options.h>
#include <interpreter/shared_memory.h>

#include <cstdint>
#include <deque>
#include <interpreter/machine.cuh>
#include <map>
#include <string>
#include <utility>

namespace fa2::interpreter {

/// Copies to one block, which complete at its mbarriers. Functions that return a string return the violated rule as a
/// sentence; empty if none.
class ClusterCopies {
 public:
  /// The source of a copy, in shared memory of the block that issues it.
  struct Source {
    SharedMemory* shared;
    std::uint32_t address;
    int rank;
  };

  /// `shared`, `mbarriers`, `rank`: of the block that receives the copies.
  ClusterCopies(Clocks& clocks, SharedMemory& shared, Mbarriers& mbarriers, int rank, const Options& options);
  void reset();

  /// `thread` issues a copy of `bytes` bytes. Before a thread overwrites the source or touches the destination, it must
  /// have waited for the mbarrier, or have synchronised with a thread that did.
  std::string copy(int thread, std::uint32_t to, const Source& from, int bytes, std::uint32_t mbarrier,
                   Site site);
  /// Must be called when all threads wait. Completes one copy in flight; returns false if there is none.
  bool land_next(std::string& broken, Site& site);
  /// Checks that both blocks know that each copy is complete. All threads of the cluster must have ended. `site`
  /// receives the copy in flight.
  std::string finish(Site& site) const;

 private:
  struct Copy {
    std::uint32_t to;
    Source from;
    int bytes;
    std::uint32_t mbarrier;
    Epoch moment;
    Site site;
  };

  std::string land(const Copy& copy);

  Clocks& clocks_;
  SharedMemory& shared_;
  Mbarriers& mbarriers_;
  int rank_;
  Options options_;
  std::deque<Copy> in_flight_;                  ///< oldest first
  std::map<std::pair<int, int>, Copy> newest_;  ///< by the mbarrier's agent and the source's rank
};

}  // namespace fa2::interpreter
