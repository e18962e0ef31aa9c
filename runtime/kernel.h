// A kernel loaded and ready to launch.
#pragma once

#include <fa2/types.h>
#include <runtime/kernel_binary.h>

#include <cstddef>
#include <memory>

namespace fa2 {

/// Immutable; launch() may be called from any thread.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Launches `grid` >= 1 blocks. `params` is the kernel's single by-value parameter struct, copied before
  /// returning.
  /// @throws CudaError.
  virtual void launch(std::uint32_t grid, const void* params, std::size_t params_size,
                      Stream stream) const = 0;
};

/// Loads a cubin on a CUDA device; sets its dynamic shared memory limit once.
std::shared_ptr<const Kernel> load_cuda_kernel(const KernelBinary& binary, int device);

}  // namespace fa2
