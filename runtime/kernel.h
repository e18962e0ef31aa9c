// A kernel that is loaded and ready to launch.
#pragma once

#include <core/element_type.h>
#include <fa2/types.h>
#include <runtime/kernel_binary.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace fa2 {

class WrittenBytes;

/// A buffer that a launch may access.
struct MemoryRange {
  std::string_view name;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  /// The access that this launch has. Access::write includes reading back its own writes.
  Access access = Access::read;
  /// True if the buffer has contents before the first launch of the plan run.
  bool initialised = access != Access::write;
};

/// The buffers of one launch, for kernels that check them.
class LaunchMemory {
 public:
  virtual std::vector<MemoryRange> ranges() const = 0;
  /// Returns the bytes that earlier launches of this plan run have written; null for a launch outside a plan.
  virtual WrittenBytes* written() const { return nullptr; }

 protected:
  ~LaunchMemory() = default;
};

/// Number of thread blocks, and when they may start.
struct LaunchShape {
  std::uint32_t grid = 0;
  std::uint32_t cluster = 1;  ///< adjacent blocks that run together; above 1 needs sm_90. 1: without clusters
  /// The launch may start while the previous one in the stream ends (programmatic dependent launch); the
  /// kernel waits by itself. Ignored before sm_90.
  bool begins_early = false;
};

/// @throws Error(internal) for a cluster size that GPUs lack, or a grid that is not a multiple of it.
void require_whole_clusters(const LaunchShape& shape);

/// Immutable; launch() may be called from any thread.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Launches at least one block. `params` is the kernel's single by-value parameter struct and is copied
  /// before the return. The interpreter checks accesses against `memory`; a GPU ignores it.
  /// @throws CudaError, KernelFault, Error(internal) for a shape that require_whole_clusters() rejects.
  virtual void launch(const LaunchShape& shape, const void* params, std::size_t params_size, Stream stream,
                      const LaunchMemory* memory) const = 0;
};

/// Loads a cubin on a CUDA device and sets its dynamic shared memory limit.
std::shared_ptr<const Kernel> load_cuda_kernel(const KernelBinary& binary, int device);

}  // namespace fa2
