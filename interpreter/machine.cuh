// What a kernel that was compiled for the CPU asks of the interpreter that runs it. Included by both: by the
// twins of templates/ptx inside the kernel, and by the interpreter.
#pragma once

namespace fa2 {
struct TensorMap;
}

namespace fa2::interpreter {

/// A line of the kernel's source: as a default argument, that of the call.
struct Site {
  const char* file;
  int line;
  constexpr Site(const char* at_file = __builtin_FILE(), int at_line = __builtin_LINE())
      : file(at_file), line(at_line) {}
};

/// One lane's part in a warp's wgmma.
struct WgmmaOperands {
  float* d;
  const unsigned* a;  ///< four registers; null if A lies in shared memory
  unsigned long long a_descriptor;
  unsigned long long b_descriptor;
  bool accumulate;
};

/// What all lanes of a wgmma m64nNk16 agree on.
struct WgmmaShape {
  int n;
  bool a_is_k_major;
  bool b_is_k_major;
  float (*value_of)(unsigned short bits);  ///< of an element
};

/// One block of threads. Every function speaks for the thread that calls it; addresses of shared memory are
/// bytes from the start of the shared window. What breaks a rule of the machine ends the launch with a
/// KernelFault.
class Machine {
 public:
  virtual int thread_index() const = 0;
  virtual unsigned block_index() const = 0;
  virtual unsigned block_rank_in_cluster() const = 0;
  virtual unsigned blocks_in_cluster() const = 0;
  /// Where the block's dynamic shared memory starts.
  virtual unsigned dynamic_shared() const = 0;

  /// What a warp-wide instruction does once all lanes have brought their operands. `first`: the warp's first
  /// thread.
  using WarpAction = void (*)(Machine& machine, int first, void* const* lanes, Site site);
  /// A warp-wide instruction, complete on return: waits for all 32 lanes to come to the same one at the same
  /// line. `orders_memory`: what any lane did before happens before what any lane does after.
  virtual void warp_wide(const char* name, WarpAction action, void* operands, bool orders_memory,
                         Site site) = 0;

  /// bar.sync and bar.arrive of barrier `id` for `threads` threads (0: all of the block).
  virtual void bar_sync(int id, int threads, Site site) = 0;
  virtual void bar_arrive(int id, int threads, Site site) = 0;

  /// The lane that elect.sync chooses.
  virtual int elected_lane() const = 0;

  /// The mbarrier at a shared address. arrive: after expecting `bytes` more.
  virtual void mbarrier_init(unsigned mbarrier, int arrivals, Site site) = 0;
  virtual void fence_mbarrier_init() = 0;
  virtual void mbarrier_arrive(unsigned mbarrier, int bytes, Site site) = 0;
  virtual void mbarrier_wait(unsigned mbarrier, unsigned parity, Site site) = 0;
  /// fence.proxy.async.
  virtual void fence_proxy_async() = 0;

  virtual void load_global(const void* from, void* to, int bytes, Site site) = 0;
  virtual void store_global(void* to, const void* from, int bytes, Site site) = 0;
  virtual void load_shared(unsigned from, void* to, int bytes, Site site) = 0;
  virtual void store_shared(unsigned to, const void* from, int bytes, Site site) = 0;
  /// For `thread`, as part of a warp-wide instruction.
  virtual void load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) = 0;
  virtual void store_shared_of(int thread, unsigned to, const void* from, int bytes, Site site) = 0;
  /// Addresses that one instruction presents together, for the count of bank conflicts.
  virtual void count_banks(const unsigned* addresses, int count, int bytes, Site site) = 0;

  /// cp.async of `bytes`, the first `source_bytes` of them read and the rest zero, into the thread's open
  /// group.
  virtual void cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) = 0;
  virtual void cp_async_commit_group() = 0;
  virtual void cp_async_wait_group(int pending) = 0;

  /// Bulk copies. `box`: five coordinates of a box's first element.
  virtual void tensor_load(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier,
                           Site site) = 0;
  virtual void bulk_load(unsigned to, const void* from, int bytes, unsigned mbarrier, Site site) = 0;
  virtual void tensor_store(const TensorMap& map, const int* box, unsigned from, Site site) = 0;
  virtual void bulk_reduce_add(float* to, unsigned from, int bytes, Site site) = 0;
  virtual void bulk_commit_group() = 0;
  /// `read_only`: until shared memory was read, and not until the data has arrived.
  virtual void bulk_wait_group(int pending, bool read_only) = 0;

  /// As part of warp-wide instructions of the warp whose first thread is `first`.
  virtual void wgmma(int first, const WgmmaShape& shape, const WgmmaOperands* const* lanes, Site site) = 0;
  virtual void wgmma_fence(int first, Site site) = 0;
  virtual void wgmma_commit_group(int first, Site site) = 0;
  virtual void wgmma_wait_group(int first, int pending, Site site) = 0;
  virtual void setmaxnreg(int first, int registers, bool increases, Site site) = 0;
  /// Until the thread's warp has what setmaxnreg asked for.
  virtual void await_registers(Site site) = 0;

  /// Of global memory: the value before.
  virtual unsigned atomic_add(unsigned* address, unsigned value, Site site) = 0;
  virtual unsigned atomic_inc(unsigned* address, unsigned limit, Site site) = 0;
  virtual float atomic_add(float* address, float value, Site site) = 0;
  virtual void atomic_add_v4(float* address, const float* values, Site site) = 0;

  /// A word of global memory: store-release, and waiting until a load-acquire reads `value`.
  virtual void store_flag(unsigned* flag, unsigned value, Site site) = 0;
  virtual void await_flag(const unsigned* flag, unsigned value, Site site) = 0;

 protected:
  ~Machine() = default;
};

}  // namespace fa2::interpreter
