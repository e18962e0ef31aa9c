// wgmma: the operations that each warp has issued, and accumulators in flight.
#pragma once

#include <interpreter/clocks.h>
#include <interpreter/options.h>
#include <interpreter/shared_memory.h>

#include <cstdint>
#include <deque>
#include <interpreter/machine.cuh>
#include <map>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Each warp computes its 16 of the 64 rows. Functions that return a string return the violated PTX rule as a
/// sentence; empty if none. `warp`: index in the block.
class WarpgroupMma {
 public:
  /// `rank`: the block's number in its cluster.
  WarpgroupMma(Clocks& clocks, SharedMemory& shared, int rank, int warps, const Options& options);
  void reset();

  void fence(int warp) { ++warps_[static_cast<std::size_t>(warp)].fences; }
  std::string issue(int warp, const WgmmaShape& shape, const WgmmaOperands* const* lanes, Site site);
  void commit_group(int warp);
  std::string wait_group(int warp, int pending);
  /// Checks that nothing is in flight. All threads must have ended. `site` receives the operation in flight.
  std::string finish(Site& site) const;

 private:
  static constexpr int kLanes = 32, kK = 16, kMaxN = 256;
  using Registers = std::vector<float>;  ///< registers of all lanes, lane by lane

  /// A set of accumulators: the same array in every lane.
  struct Accumulator {
    float* lanes[kLanes];
    int count = 0;      ///< registers per lane
    int in_flight = 0;  ///< wgmmas that have yet to write it
    Registers value;    ///< its value, now or on completion
    int fences = 0;     ///< fences of the warp when it was last complete
  };
  struct FragmentA {
    std::uint32_t value[kLanes][4];
    int fences = 0;
  };
  struct Operation {
    WgmmaShape shape;
    WgmmaOperands operands;                ///< operands of lane 0
    const std::uint32_t* a_lanes[kLanes];  ///< null if A lies in shared memory
    std::uint32_t a_at_issue[kLanes][4];
    float* accumulator;
    Site site;
  };
  struct Warp {
    int agent = -1;  ///< reads the operands of group n at its moment n
    std::uint32_t opened = 1;
    int fences = 0;
    std::vector<Operation> open;
    std::deque<std::vector<Operation>> committed;  ///< oldest first
    std::map<float*, Accumulator> accumulators;    ///< by the first register of lane 0
    std::map<const std::uint32_t*, FragmentA> fragments;
  };

  std::string check_lanes(const WgmmaOperands* const* lanes) const;
  std::string check_shared(int warp, const Operation& operation);
  std::string check_fragment(Warp& warp, const Operation& operation);
  std::string enter(Warp& warp, const WgmmaShape& shape, const WgmmaOperands* const* lanes);
  std::string complete(Warp& warp, int index, const Operation& operation);
  double element(const WgmmaShape& shape, std::uint32_t address, int i) const;
  void read_a(int warp, const Operation& operation, double (&a)[16][kK]) const;
  void read_b(const Operation& operation, double (&b)[kK][kMaxN]) const;
  void compute(int warp, const Operation& operation, Registers& d) const;
  bool holds(const Accumulator& accumulator) const;
  void put(const Accumulator& accumulator, bool poisoned) const;

  /// Returns the number of a warp's first thread in the cluster.
  int first_thread(int warp) const { return (rank_ * static_cast<int>(warps_.size()) + warp) * kLanes; }

  Clocks& clocks_;
  SharedMemory& shared_;
  int rank_;
  Options options_;
  std::vector<Warp> warps_;
};

}  // namespace fa2::interpreter
