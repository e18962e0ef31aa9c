// The interface between a kernel compiled for the CPU and the interpreter. The emulations of templates/ptx in
// the kernel include it, and so does the interpreter.
#pragma once

namespace fa2 {
struct TensorMap;
}

namespace fa2::interpreter {

/// A line of the kernel's source. As a default argument it is the line of the call.
struct Site {
  const char* file;
  int line;
  constexpr Site(const char* at_file = __builtin_FILE(), int at_line = __builtin_LINE())
      : file(at_file), line(at_line) {}
};

/// One lane's operands in a warp's wgmma.
struct WgmmaOperands {
  float* d;
  const unsigned* a;  ///< four registers; null if A lies in shared memory
  unsigned long long a_descriptor;
  unsigned long long b_descriptor;
  bool accumulate;
};

/// Properties of a wgmma m64nNk16 that must be equal in all lanes.
struct WgmmaShape {
  int n;
  bool a_is_k_major;
  bool b_is_k_major;
  float (*value_of)(unsigned short bits);  ///< returns the value of an element
};

/// A thread block. Every function acts for the calling thread. Shared addresses count bytes from the start of
/// the shared window. A violated PTX rule ends the launch with a KernelFault.
class Machine {
 public:
  virtual int thread_index() const = 0;
  virtual unsigned block_index() const = 0;
  virtual unsigned block_rank_in_cluster() const = 0;
  virtual unsigned blocks_in_cluster() const = 0;
  /// Returns the start of the block's dynamic shared memory.
  virtual unsigned dynamic_shared() const = 0;

  /// The action of a warp-wide instruction, once all lanes have passed their operands. `first`: the warp's
  /// first thread.
  using WarpAction = void (*)(Machine& machine, int first, void* const* lanes, Site site);
  /// Executes a warp-wide instruction; complete on return. Waits until all 32 lanes reach the same
  /// instruction at the same line. `orders_memory`: what any lane did before happens before what any lane
  /// does after.
  virtual void warp_wide(const char* name, WarpAction action, void* operands, bool orders_memory,
                         Site site) = 0;

  /// bar.sync and bar.arrive on barrier `id` for `threads` threads (0: all of the block).
  virtual void bar_sync(int id, int threads, Site site) = 0;
  virtual void bar_arrive(int id, int threads, Site site) = 0;

  /// barrier.cluster.arrive, as a part of a warp-wide instruction in the warp whose first thread is `first`.
  virtual void barrier_cluster_arrive(int first, Site site) = 0;
  virtual void barrier_cluster_wait(Site site) = 0;

  /// Returns the lane that elect.sync chooses.
  virtual int elected_lane() const = 0;

  /// Operations on the mbarrier at a shared address. arrive first expects `bytes` more.
  virtual void mbarrier_init(unsigned mbarrier, int arrivals, Site site) = 0;
  virtual void fence_mbarrier_init() = 0;
  virtual void mbarrier_arrive(unsigned mbarrier, int bytes, Site site) = 0;
  /// `cluster`: synchronises with arrivals from, and copies by, other blocks too.
  virtual void mbarrier_wait(unsigned mbarrier, unsigned parity, bool cluster, Site site) = 0;
  /// fence.proxy.async for this block's shared memory, or with `cluster` for that of all blocks.
  virtual void fence_proxy_async(bool cluster) = 0;

  /// Returns the shared::cluster address of a shared address in the block with rank `rank`. The functions below take
  /// such addresses, except for the source `from` of a bulk copy.
  virtual unsigned mapa(unsigned address, unsigned rank, Site site) = 0;
  virtual void load_cluster(unsigned from, void* to, int bytes, Site site) = 0;
  virtual void store_cluster(unsigned to, const void* from, int bytes, Site site) = 0;
  virtual void mbarrier_arrive_cluster(unsigned mbarrier, Site site) = 0;
  virtual void bulk_copy_cluster(unsigned to, unsigned from, int bytes, unsigned mbarrier, Site site) = 0;

  /// Checks an index of a text of scores into a capture.
  virtual void check_index(int index, int size, Site site) = 0;
  virtual void load_global(const void* from, void* to, int bytes, Site site) = 0;
  virtual void store_global(void* to, const void* from, int bytes, Site site) = 0;
  virtual void load_shared(unsigned from, void* to, int bytes, Site site) = 0;
  virtual void store_shared(unsigned to, const void* from, int bytes, Site site) = 0;
  /// Act for `thread`, as a part of a warp-wide instruction.
  virtual void load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) = 0;
  virtual void store_shared_of(int thread, unsigned to, const void* from, int bytes, Site site) = 0;
  /// Counts bank conflicts of the addresses that one instruction presents together.
  virtual void count_banks(const unsigned* addresses, int count, int bytes, Site site) = 0;

  /// cp.async of `bytes` bytes into the thread's open group. It reads the first `source_bytes` and zeroes the
  /// rest.
  virtual void cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) = 0;
  virtual void cp_async_commit_group() = 0;
  virtual void cp_async_wait_group(int pending) = 0;
  /// cp.async.mbarrier.arrive.noinc: once the thread's copies so far are complete, they arrive at the mbarrier.
  virtual void cp_async_mbarrier_arrive(unsigned mbarrier, Site site) = 0;

  /// Bulk copies. `box`: five coordinates of a box's first element.
  virtual void tensor_load(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier,
                           Site site) = 0;
  /// `blocks`: the ranks of those that receive the box, a bit each.
  virtual void tensor_load_multicast(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier,
                                     unsigned blocks, Site site) = 0;
  virtual void bulk_load(unsigned to, const void* from, int bytes, unsigned mbarrier, Site site) = 0;
  virtual void tensor_store(const TensorMap& map, const int* box, unsigned from, Site site) = 0;
  virtual void bulk_reduce_add(float* to, unsigned from, int bytes, Site site) = 0;
  virtual void bulk_commit_group() = 0;
  /// `read_only`: waits until shared memory has been read, not until the data has arrived.
  virtual void bulk_wait_group(int pending, bool read_only) = 0;

  /// Act as parts of warp-wide instructions in the warp whose first thread is `first`.
  virtual void wgmma(int first, const WgmmaShape& shape, const WgmmaOperands* const* lanes, Site site) = 0;
  virtual void wgmma_fence(int first, Site site) = 0;
  virtual void wgmma_commit_group(int first, Site site) = 0;
  virtual void wgmma_wait_group(int first, int pending, Site site) = 0;
  virtual void setmaxnreg(int first, int registers, bool increases, Site site) = 0;
  /// Waits until the thread's warp has the registers that setmaxnreg requested.
  virtual void await_registers(Site site) = 0;

  /// griddepcontrol.wait.
  virtual void wait_for_launches_before() = 0;

  /// Atomic operations on global memory. They return the old value.
  virtual unsigned atomic_add(unsigned* address, unsigned value, Site site) = 0;
  virtual unsigned atomic_inc(unsigned* address, unsigned limit, Site site) = 0;
  virtual long long atomic_add(long long* address, long long value, Site site) = 0;
  virtual float atomic_add(float* address, float value, Site site) = 0;
  virtual float atomic_max(float* address, float value, Site site) = 0;
  virtual void atomic_add_v4(float* address, const float* values, Site site) = 0;

  /// store_flag: store-release to a word of global memory. await_flag: waits until a load-acquire reads
  /// `value`.
  virtual void store_flag(unsigned* flag, unsigned value, Site site) = 0;
  virtual void await_flag(const unsigned* flag, unsigned value, Site site) = 0;
  /// add_to_flag: atomic add with acquire and release; returns the old value. poll_flag: returns whether the
  /// bits in `mask` become `value` while another block can go on.
  virtual unsigned add_to_flag(unsigned* flag, unsigned value, Site site) = 0;
  virtual bool poll_flag(const unsigned* flag, unsigned mask, unsigned value, Site site) = 0;

 protected:
  ~Machine() = default;
};

}  // namespace fa2::interpreter
