// One block of a launch: its threads as fibers on one host thread, and everything they share.
#pragma once

#include <interpreter/clocks.h>
#include <interpreter/global_memory.h>
#include <interpreter/options.h>
#include <interpreter/shared_memory.h>
#include <interpreter/stack.h>

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <interpreter/machine.cuh>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fa2::interpreter {

/// Wavefronts of shared memory that the accesses of one source line took, and would have taken without
/// conflicts.
struct BankCount {
  std::uint64_t wavefronts = 0;
  std::uint64_t least = 0;
};
/// By file and line; the file's name belongs to the kernel.
using BankCounts = std::map<std::pair<const char*, int>, BankCount>;

/// Reused from block to block by one host thread.
class Block final : public Machine {
 public:
  using Entry = void (*)(const void* params);

  /// `name` stands in the messages.
  Block(std::string name, int threads, std::uint32_t shared_bytes, const Options& options);

  /// Runs block `index` to its end. @throws KernelFault; the block can be used again.
  void run(Entry entry, const void* params, unsigned index, GlobalMemory& global);

  const BankCounts& banks() const { return banks_; }

  int thread_index() const override { return current_; }
  unsigned block_index() const override { return index_; }
  unsigned dynamic_shared() const override { return SharedMemory::kStart; }
  void warp_wide(const char* name, WarpAction action, void* operands, bool orders_memory, Site site) override;
  void bar_sync(int id, int threads, Site site) override;
  void bar_arrive(int id, int threads, Site site) override;
  void load_global(const void* from, void* to, int bytes, Site site) override;
  void store_global(void* to, const void* from, int bytes, Site site) override;
  void load_shared(unsigned from, void* to, int bytes, Site site) override;
  void store_shared(unsigned to, const void* from, int bytes, Site site) override;
  void load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) override;
  void count_banks(const unsigned* addresses, int count, int bytes, Site site) override;
  void cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) override;
  void cp_async_commit_group() override;
  void cp_async_wait_group(int pending) override;

 private:
  enum class State : std::uint8_t { ready, in_warp, at_barrier, done };

  struct Copy {
    unsigned to;
    const void* from;
    int bytes;
    int source_bytes;
    Site site;
  };

  /// What a thread waits in, for the report of a deadlock.
  struct Wait {
    const char* instruction = "";
    Site site;
    int barrier = -1;
  };

  struct Thread {
    boost::context::fiber fiber;      ///< resumes the thread
    boost::context::fiber scheduler;  ///< resumes who resumed the thread
    State state = State::ready;
    Wait waits_in;
    std::vector<Copy> open_group;
    std::deque<std::vector<Copy>> groups;  ///< oldest first
  };

  /// Accesses to shared memory at one line, each lane's in turn.
  struct PlainAccesses {
    int bytes = 0;
    std::vector<unsigned> addresses[32];
  };

  struct Warp {
    const char* name = nullptr;
    WarpAction action = nullptr;
    Site site;
    std::uint32_t arrived = 0;  ///< a bit a lane
    int first_lane = 0;
    void* lanes[32] = {};
    /// Since the last warp-wide instruction.
    std::map<std::pair<const char*, int>, PlainAccesses> plain;
  };

  struct Barrier {
    int expected = 0;
    int arrived = 0;
    Times joined;
    std::vector<int> waiting;
  };

  Thread& current() { return threads_[static_cast<std::size_t>(current_)]; }
  Warp& warp_of(int thread) { return warps_[static_cast<std::size_t>(thread / 32)]; }
  void start(Entry entry, const void* params);
  void schedule();
  bool resume_ready_threads(const std::vector<int>& warp_order);
  void wait(State state, const Wait& wait);
  std::string text_of(const Wait& wait) const;
  void require_one_barrier(Site site) const;
  bool arrive(int id, int threads, Site site);
  void land(const Copy& copy);
  void require_all_waited_for();
  void note_plain_access(unsigned address, int bytes, Site site);
  void count_plain_accesses(Warp& warp);
  void require(const std::string& broken_rule, Site site) const;
  [[noreturn]] void fault(int thread, Site site, const std::string& what) const;
  [[noreturn]] void report_deadlock() const;

  static constexpr int kBarriers = 16;

  std::string name_;
  Options options_;
  Clocks clocks_;
  SharedMemory shared_;
  std::vector<Stack> stacks_;  ///< of the threads, which they outlive
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  Barrier barriers_[kBarriers];
  GlobalMemory* global_ = nullptr;
  unsigned index_ = 0;
  int current_ = 0;
  std::exception_ptr failure_;
  BankCounts banks_;
};

}  // namespace fa2::interpreter
