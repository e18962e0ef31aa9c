// One thread block: its threads as fibers, and everything they share. A Cluster schedules them.
#pragma once

#include <interpreter/bank_conflicts.h>
#include <interpreter/block_signals.h>
#include <interpreter/bulk_copies.h>
#include <interpreter/clocks.h>
#include <interpreter/cluster_copies.h>
#include <interpreter/global_memory.h>
#include <interpreter/mbarriers.h>
#include <interpreter/options.h>
#include <interpreter/register_pool.h>
#include <interpreter/remote_accesses.h>
#include <interpreter/shared_memory.h>
#include <interpreter/stack.h>
#include <interpreter/warpgroup_mma.h>
#include <interpreter/warpgroup_sequence.h>

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <interpreter/machine.cuh>
#include <string>
#include <vector>

namespace fa2::interpreter {

class Cluster;

/// What the blocks of a launch have in common.
struct BlockShape {
  std::string name;  ///< appears in messages
  int threads = 0;
  std::uint32_t shared_bytes = 0;
  int registers = 0;  ///< per thread, at launch
  Options options;
};

/// Runs blocks one after the other, on one host thread.
class Block final : public Machine {
 public:
  using Entry = void (*)(const void* params);

  Block(const BlockShape& shape, Cluster& cluster, int rank);

  /// Makes all threads ready to run. `first_block`: index of the cluster's first block.
  void begin(Entry entry, const void* params, unsigned first_block, GlobalMemory& global,
             BlockSignals& signals);
  /// Runs the threads of a warp that can run, each until it waits. Returns false if none could.
  bool resume_ready_threads(int warp);
  void wake(int thread) { threads_[static_cast<std::size_t>(thread)].state = State::ready; }
  bool ended() const;
  /// Completes what arrives next. Returns false if nothing is in flight.
  bool land_next_copy();
  bool awaits_flag() const;
  /// Wakes threads whose flag has been written. Returns false if there are none.
  bool wake_for_flags();
  /// Ends the polls of this block, which found nothing. Returns false if there are none.
  bool end_polls();
  /// Checks that nothing is in flight. All threads of the cluster must have ended.
  void finish();
  /// Ends all threads, wherever they are.
  void unwind();
  /// Returns a line for all threads that wait for the same.
  std::string doings() const;

  const BankCounts& banks() const { return banks_.counts(); }

  int thread_index() const override { return current_; }
  unsigned block_index() const override { return index_; }
  unsigned block_rank_in_cluster() const override { return static_cast<unsigned>(rank_); }
  unsigned blocks_in_cluster() const override;
  unsigned dynamic_shared() const override { return SharedMemory::kStart; }
  void warp_wide(const char* name, WarpAction action, void* operands, bool orders_memory, Site site) override;
  void bar_sync(int id, int threads, Site site) override;
  void bar_arrive(int id, int threads, Site site) override;
  void barrier_cluster_arrive(int first, Site site) override;
  void barrier_cluster_wait(Site site) override;
  int elected_lane() const override { return static_cast<int>(options_.seed % 32); }
  void mbarrier_init(unsigned mbarrier, int arrivals, Site site) override;
  void fence_mbarrier_init() override;
  void mbarrier_arrive(unsigned mbarrier, int bytes, Site site) override;
  void mbarrier_wait(unsigned mbarrier, unsigned parity, bool cluster, Site site) override;
  void fence_proxy_async(bool cluster) override;
  unsigned mapa(unsigned address, unsigned rank, Site site) override;
  void load_cluster(unsigned from, void* to, int bytes, Site site) override;
  void store_cluster(unsigned to, const void* from, int bytes, Site site) override;
  void mbarrier_arrive_cluster(unsigned mbarrier, Site site) override;
  void bulk_copy_cluster(unsigned to, unsigned from, int bytes, unsigned mbarrier, Site site) override;
  void check_index(int index, int size, Site site) override;
  void load_global(const void* from, void* to, int bytes, Site site) override;
  void store_global(void* to, const void* from, int bytes, Site site) override;
  void load_shared(unsigned from, void* to, int bytes, Site site) override;
  void store_shared(unsigned to, const void* from, int bytes, Site site) override;
  void load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) override;
  void store_shared_of(int thread, unsigned to, const void* from, int bytes, Site site) override;
  void count_banks(const unsigned* addresses, int count, int bytes, Site site) override;
  void cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) override;
  void cp_async_commit_group() override;
  void cp_async_wait_group(int pending) override;
  void cp_async_mbarrier_arrive(unsigned mbarrier, Site site) override;
  void tensor_load(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier, Site site) override;
  void tensor_load_multicast(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier,
                             unsigned blocks, Site site) override;
  void bulk_load(unsigned to, const void* from, int bytes, unsigned mbarrier, Site site) override;
  void tensor_store(const TensorMap& map, const int* box, unsigned from, Site site) override;
  void bulk_reduce_add(float* to, unsigned from, int bytes, Site site) override;
  void bulk_commit_group() override;
  void bulk_wait_group(int pending, bool read_only) override;
  void wgmma(int first, const WgmmaShape& shape, const WgmmaOperands* const* lanes, Site site) override;
  void wgmma_fence(int first, Site site) override;
  void wgmma_commit_group(int first, Site site) override;
  void wgmma_wait_group(int first, int pending, Site site) override;
  void setmaxnreg(int first, int registers, bool increases, Site site) override;
  void await_registers(Site site) override;
  void wait_for_launches_before() override { current().has_waited = true; }
  unsigned atomic_add(unsigned* address, unsigned value, Site site) override;
  unsigned atomic_inc(unsigned* address, unsigned limit, Site site) override;
  long long atomic_add(long long* address, long long value, Site site) override;
  float atomic_add(float* address, float value, Site site) override;
  float atomic_max(float* address, float value, Site site) override;
  void atomic_add_v4(float* address, const float* values, Site site) override;
  void store_flag(unsigned* flag, unsigned value, Site site) override;
  void await_flag(const unsigned* flag, unsigned value, Site site) override;
  unsigned add_to_flag(unsigned* flag, unsigned value, Site site) override;
  bool poll_flag(const unsigned* flag, unsigned mask, unsigned value, Site site) override;

 private:
  enum class State : std::uint8_t {
    ready,
    in_warp,
    at_barrier,
    at_cluster_barrier,
    at_mbarrier,
    at_flag,
    for_registers,
    done
  };

  struct Copy {
    unsigned to;
    const void* from;
    int bytes;
    int source_bytes;
    Site site;
  };

  /// Copies of a thread that arrive at an mbarrier once they are complete.
  struct Arrival {
    Epoch issued;
    std::vector<Copy> copies;
    unsigned mbarrier;
    Site site;
  };

  struct Thread {
    boost::context::fiber fiber;      ///< resumes the thread
    boost::context::fiber scheduler;  ///< resumes the scheduler
    State state = State::ready;
    unsigned waits_for = 0;  ///< the barrier's number, the mbarrier's address, or the flag's value
    const unsigned* flag = nullptr;
    unsigned flag_mask = 0;   ///< bits of the flag that are waited for
    bool has_waited = false;  ///< for the launches before
    bool polls = false;       ///< stops to wait for the flag if no block can go on
    Site waits_at;
    std::vector<Copy> open_group;
    std::deque<std::vector<Copy>> groups;  ///< oldest first
  };

  struct Warp {
    const char* name = nullptr;
    WarpAction action = nullptr;
    Site site;
    std::uint32_t arrived = 0;  ///< one bit per lane
    int first_lane = 0;
    void* lanes[32] = {};
  };

  struct Barrier {
    int expected = 0;
    int arrived = 0;
    Times joined;
    std::vector<int> waiting;
  };

  /// A place in the shared memory of a block of the cluster.
  struct Location {
    Block& block;
    unsigned address;
  };

  Thread& current() { return threads_[static_cast<std::size_t>(current_)]; }
  Warp& warp_of(int thread) { return warps_[static_cast<std::size_t>(thread / 32)]; }
  static unsigned flag_of(const unsigned* flag);
  /// Returns a thread's number in the cluster, under which clocks, memory and copies know it.
  int number_of(int thread) const { return rank_ * static_cast<int>(threads_.size()) + thread; }
  int current_number() const { return number_of(current_); }
  void start(Entry entry, const void* params);
  /// The current thread's function has returned.
  void end_thread();
  /// Returns the block with this rank. The current thread is about to access `address` there, so it must know that the
  /// block has begun and has not ended.
  Block& require_alive(int rank, unsigned address, Site site);
  /// Returns the block and the shared address that a shared::cluster address means. The block must be alive.
  Location locate(unsigned address, Site site);
  /// Notes an access by the current thread.
  void note_access(const Location& to, Site site);
  /// Checks that this block has waited for all accesses of other blocks. All threads of the cluster must have ended.
  void require_accesses_waited_for() const;
  std::string may_have_ended(unsigned address) const;
  void wait_for_flag(const unsigned* flag, unsigned mask, unsigned value, bool polls, Site site);
  void wait(State state, unsigned waits_for, Site site);
  void wake_for_registers(int warp);
  void require_one_barrier(Site site) const;
  bool arrive(int id, int threads, Site site);
  void land(const Copy& copy);
  /// Completes the copies that arrive next. Returns false if there are none.
  bool land_next_arrival();
  void require_all_waited_for();
  void require(const std::string& broken_rule, Site site) const;
  /// Checks an access of the running thread to global memory, and notes what it writes.
  void require_global(Access access, const void* address, int bytes, Site site);
  /// Checks that what an earlier launch has written is touched after the wait for it.
  void require_order(const void* address, int bytes, Site site);
  void follow_warpgroup(int first, const WarpgroupStep& step);
  [[noreturn]] void fault(int thread, Site site, const std::string& what) const;
  [[noreturn]] void fault(Site site, const std::string& what) const;
  std::string doing_of(int thread) const;

  static constexpr int kBarriers = 16;

  std::string name_;
  Options options_;
  Cluster& cluster_;
  int rank_;
  Clocks& clocks_;
  SharedMemory shared_;
  Mbarriers mbarriers_;
  BulkCopies copies_;
  ClusterCopies cluster_copies_;
  RemoteAccesses accesses_;
  WarpgroupMma mma_;
  WarpgroupSequence sequence_;
  RegisterPool registers_;
  std::vector<Stack> stacks_;  ///< stacks of the threads, which they outlive
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  Barrier barriers_[kBarriers];
  std::deque<Arrival> arrivals_;  ///< oldest first
  GlobalMemory* global_ = nullptr;
  BlockSignals* signals_ = nullptr;
  unsigned index_ = 0;  ///< in the grid
  int current_ = 0;
  std::exception_ptr failure_;
  BankConflicts banks_;
};

}  // namespace fa2::interpreter
