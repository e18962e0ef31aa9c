// Accesses to a block's shared memory by the other blocks of its cluster.
#pragma once

#include <interpreter/clocks.h>

#include <cstdint>
#include <interpreter/machine.cuh>
#include <optional>
#include <vector>

namespace fa2::interpreter {

/// The memory exists while the block runs. So before the block ends, one of its threads must have synchronised with
/// each access, by a barrier of the cluster or by an mbarrier. Clocks tell whether one has. The answer does not depend
/// on the order in which threads ran.
class RemoteAccesses {
 public:
  struct Access {
    Epoch moment;
    std::uint32_t address = 0;
    Site site;
  };

  /// `rank`: rank of the block that owns the memory.
  RemoteAccesses(const Clocks& clocks, int rank) : clocks_(clocks), rank_(rank) {}
  void reset() { newest_.clear(); }

  /// Notes an access that `thread` makes now.
  void note(int thread, std::uint32_t address, Site site);
  /// Returns an access with which no thread of the block has synchronised; nullopt if there is none. All threads of
  /// the cluster must have ended.
  std::optional<Access> missed() const;

 private:
  const Clocks& clocks_;
  int rank_;
  std::vector<Access> newest_;  ///< by thread; it implies the older ones
};

}  // namespace fa2::interpreter
