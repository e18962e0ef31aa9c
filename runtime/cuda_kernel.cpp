// A Kernel whose cubin the driver has loaded.
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/kernel.h>

#include <cassert>

namespace fa2 {
namespace {

/// Owns a CUlibrary, which serves every context.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const KernelBinary& binary) {
    const CUresult result =
        driver().library_load_data(&library_, binary.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS) {
      throw_cuda_error(result,
                       fmt::format("cuLibraryLoadData of the {} kernel {}", binary.arch, binary.spec));
    }
  }
  ~LoadedLibrary() { warn_unless_ok(driver().library_unload(library_), "cuLibraryUnload"); }
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  /// Returns the kernel. The driver may load code this late, and only then find it invalid.
  CUkernel kernel(const KernelBinary& binary) const {
    CUkernel found = nullptr;
    const CUresult result = driver().library_get_kernel(&found, library_, binary.entry.c_str());
    if (result != CUDA_SUCCESS) {
      throw_cuda_error(result, fmt::format("cuLibraryGetKernel of {} in the {} kernel {}", binary.entry,
                                           binary.arch, binary.spec));
    }
    return found;
  }

 private:
  CUlibrary library_ = nullptr;
};

CUlaunchAttribute cluster_attribute(const LaunchShape& shape) {
  require_whole_clusters(shape);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = shape.cluster;
  attribute.value.clusterDim.y = 1;
  attribute.value.clusterDim.z = 1;
  return attribute;
}

CUlaunchAttribute early_attribute() {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// Returns whether launches may start early. Drivers before CUDA 12.3 cannot capture such launches.
bool can_begin_early(int device) {
  constexpr int kCapturesEarlyLaunches = 12030;
  int major = 0;
  check(driver().device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        "cuDeviceGetAttribute");
  return major >= 9 && driver().version >= kCapturesEarlyLaunches;
}

class CudaKernel final : public Kernel {
 public:
  /// The device's context must be current.
  CudaKernel(const KernelBinary& binary, int device)
      : driver_(driver()),
        library_(binary),
        kernel_(library_.kernel(binary)),
        begins_early_(can_begin_early(device)),
        threads_(static_cast<unsigned>(binary.resources.threads)),
        shared_bytes_(static_cast<unsigned>(binary.resources.dynamic_shared_bytes)) {
    check(driver_.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       binary.resources.dynamic_shared_bytes, kernel_, device),
          "cuKernelSetAttribute");
    load_into_context();
  }

  void launch(const LaunchShape& shape, const void* params, std::size_t, Stream stream,
              const LaunchMemory*) const override {
    assert(shape.grid > 0);
    CUlaunchConfig config{};
    config.gridDimX = shape.grid;
    config.gridDimY = 1;
    config.gridDimZ = 1;
    config.blockDimX = threads_;
    config.blockDimY = 1;
    config.blockDimZ = 1;
    config.sharedMemBytes = shared_bytes_;
    config.hStream = stream;
    CUlaunchAttribute attributes[2];
    config.attrs = attributes;
    if (shape.cluster != 1) attributes[config.numAttrs++] = cluster_attribute(shape);
    if (shape.begins_early && begins_early_) attributes[config.numAttrs++] = early_attribute();
    void* arguments[] = {const_cast<void*>(params)};
    // The driver accepts a CUkernel as a CUfunction and finds the one of the current context.
    const auto function = reinterpret_cast<CUfunction>(kernel_);
    check(driver_.launch_kernel_ex(&config, function, arguments, nullptr), "cuLaunchKernelEx");
  }

 private:
  /// Loads the code now, by asking for an attribute of the function. The driver would load it at the first
  /// launch, which may be inside a stream capture, where loading is not allowed.
  void load_into_context() const {
    CUfunction function = nullptr;
    check(driver_.kernel_get_function(&function, kernel_), "cuKernelGetFunction");
    int registers = 0;
    check(driver_.func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function), "cuFuncGetAttribute");
  }

  const Driver& driver_;
  LoadedLibrary library_;
  CUkernel kernel_;
  bool begins_early_;
  unsigned threads_;
  unsigned shared_bytes_;
};

}  // namespace

std::shared_ptr<const Kernel> load_cuda_kernel(const KernelBinary& binary, int device) {
  const ScopedContext context(device);
  return std::make_shared<CudaKernel>(binary, device);
}

}  // namespace fa2
