// Bulk copies between global and shared memory, as the tensor memory accelerator makes them for a block.
#pragma once

#include <interpreter/clocks.h>
#include <interpreter/global_memory.h>
#include <interpreter/mbarriers.h>
#include <interpreter/options.h>
#include <interpreter/shared_memory.h>
#include <runtime/tensor_map.h>

#include <cstdint>
#include <deque>
#include <interpreter/machine.cuh>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// The global side of a bulk copy: a box of a tensor, or bytes one after the other.
struct BulkMemory {
  std::optional<InterpretedTensorMap> map;
  int at[5] = {};              ///< with a map: coordinates of the box's first element
  std::byte* begin = nullptr;  ///< without a map: first byte
  int bytes = 0;               ///< bytes on the shared side
};

/// Functions that return a string return the violated rule as a sentence; empty if none.
class BulkCopies {
 public:
  /// `rank`: the block's number in its cluster.
  BulkCopies(Clocks& clocks, SharedMemory& shared, Mbarriers& mbarriers, int rank, const Options& options);
  void reset(GlobalMemory& global);

  /// Reads a kernel's tensor map and the box at `at`. @param[out] memory valid if no rule is violated.
  static std::string read_map(const TensorMap& map, const int* at, BulkMemory& memory);

  std::string load(int thread, std::uint32_t to, const BulkMemory& from, std::uint32_t mbarrier, Site site);
  /// `adds`: adds float32 values to global memory instead of storing them.
  std::string store(int thread, const BulkMemory& to, std::uint32_t from, bool adds, Site site);
  void commit_group(int thread);
  /// `read_only`: waits until shared memory has been read, not until the data has arrived.
  void wait_group(int thread, int pending, bool read_only);

  /// Must be called when all threads wait. Completes one load in flight; returns false if there is none.
  bool land_next(std::string& broken, Site& site);
  /// Checks that nothing is in flight. All threads must have ended. `site` receives the copy in flight.
  std::string finish(Site& site);

 private:
  struct Load {
    std::uint32_t to;
    BulkMemory from;
    std::uint32_t mbarrier;
    Site site;
  };
  struct Store {
    BulkMemory to;
    std::uint32_t from;
    bool adds;
    Site site;
    std::vector<std::byte> data;  ///< valid once shared memory has been read
  };
  struct Group {
    std::vector<Store> stores;
    bool read = false;
  };
  struct Groups {
    int agent = -1;            ///< reads group n at its moment n
    std::uint32_t opened = 1;  ///< number of the open group
    std::vector<Store> open;
    std::deque<Group> committed;  ///< oldest first
  };

  struct Unwaited {
    Epoch moment;
    Site site;
  };

  std::string check_load(const BulkMemory& memory) const;
  std::string check_store(const BulkMemory& memory, bool adds) const;
  std::string land(const Load& load);
  std::vector<std::byte> bytes_in_order(const BulkMemory& memory, std::uint32_t from) const;
  void write(const Store& store);

  Clocks& clocks_;
  SharedMemory& shared_;
  Mbarriers& mbarriers_;
  GlobalMemory* global_ = nullptr;
  int rank_;
  Options options_;
  std::deque<Load> loads_;          ///< in flight
  std::map<int, Groups> groups_;    ///< by thread
  std::map<int, Unwaited> newest_;  ///< newest load on each mbarrier, by its agent
};

}  // namespace fa2::interpreter
