// A kernel loaded and ready to launch.
#pragma once

#include <fa2/types.h>
#include <runtime/element_type.h>
#include <runtime/kernel_binary.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace fa2 {

class WrittenBytes;

/// A buffer that a launch may touch.
struct MemoryRange {
  std::string_view name;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  /// Of this launch. Where it may only write, it may read what it has written itself.
  Access access = Access::read;
  /// Whether the buffer holds something before the first launch of the plan run.
  bool initialised = access != Access::write;
};

/// The buffers of one launch, for a kernel that asks.
class LaunchMemory {
 public:
  virtual std::vector<MemoryRange> ranges() const = 0;
  /// By the launches of the same plan run so far; null for a launch of its own.
  virtual WrittenBytes* written() const { return nullptr; }

 protected:
  ~LaunchMemory() = default;
};

/// How many blocks a launch has, and when they may begin.
struct LaunchShape {
  std::uint32_t grid = 0;
  std::uint32_t cluster = 1;  ///< neighbours in the grid that run together; more than 1 needs sm_90
  /// While the launch before it in the stream ends (programmatic dependent launch): the kernel waits by itself. Heeded
  /// where there is such a thing: from sm_90 on.
  bool begins_early = false;
};

/// @throws Error(internal) for a cluster that GPUs do not have, or a grid that is no multiple of it.
void require_whole_clusters(const LaunchShape& shape);

/// Immutable; launch() may be called from any thread.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Launches at least one block. `params` is the kernel's single by-value parameter struct, copied before
  /// returning. `memory` is what an interpreted kernel is held to; a GPU does not look at it.
  /// @throws CudaError, KernelFault, Error(internal) for a shape that require_whole_clusters() refuses.
  virtual void launch(const LaunchShape& shape, const void* params, std::size_t params_size, Stream stream,
                      const LaunchMemory* memory) const = 0;
};

/// Loads a cubin on a CUDA device; sets its dynamic shared memory limit once.
std::shared_ptr<const Kernel> load_cuda_kernel(const KernelBinary& binary, int device);

}  // namespace fa2
