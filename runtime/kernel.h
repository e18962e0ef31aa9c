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

/// A buffer that a launch may touch.
struct MemoryRange {
  std::string_view name;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  Access access = Access::read;
};

/// The buffers of one launch, for a kernel that asks.
class LaunchMemory {
 public:
  virtual std::vector<MemoryRange> ranges() const = 0;

 protected:
  ~LaunchMemory() = default;
};

/// How many blocks a launch has.
struct LaunchShape {
  std::uint32_t grid = 0;
};

/// Immutable; launch() may be called from any thread.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Launches at least one block. `params` is the kernel's single by-value parameter struct, copied before
  /// returning. `memory` is what an interpreted kernel is held to; a GPU does not look at it.
  /// @throws CudaError, KernelFault.
  virtual void launch(const LaunchShape& shape, const void* params, std::size_t params_size, Stream stream,
                      const LaunchMemory* memory) const = 0;
};

/// Loads a cubin on a CUDA device; sets its dynamic shared memory limit once.
std::shared_ptr<const Kernel> load_cuda_kernel(const KernelBinary& binary, int device);

}  // namespace fa2
