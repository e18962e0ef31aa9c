// Kernels of a few lines that use the instructions of templates/ptx, each to test one rule of the machine.
#pragma once

#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <generator/wgmma_shapes.h>
#include <interpreter/options.h>
#include <runtime/device_buffer.h>
#include <runtime/kernel.h>
#include <runtime/kernel_binary.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace fa2::test {

struct SmallKernel {
  /// The body of the kernel function, whose parameter is `p`. It may use all of fa2 and fa2::ptx. Its first
  /// line is line 1 of the file "body".
  std::string body;
  std::string params = "int unused;";  ///< members of p
  int threads = 32;
  int shared_bytes = 1024;
  std::vector<WgmmaShape> wgmma_shapes = {};
  std::vector<std::string> headers =
      {};  ///< headers of templates/ to include in addition to those of templates/ptx
};

/// Returns the source for any arch, with every header of templates/ptx included.
KernelSource source_of(const SmallKernel& kernel, const Arch& arch);

/// Compiles and loads the kernel for the device under test.
std::shared_ptr<const Kernel> build(const SmallKernel& kernel);

/// Compiles with the host's compiler. May be called from any thread.
KernelBinary compile_for_interpreter(const SmallKernel& kernel);

/// Compiles and loads the kernel for the interpreter, whatever the device under test.
std::shared_ptr<const Kernel> build(const SmallKernel& kernel, const interpreter::Options& options);

/// The buffers of a launch, as the interpreter expects them.
struct Buffers final : LaunchMemory {
  std::vector<MemoryRange> list;
  std::vector<MemoryRange> ranges() const override { return list; }

  Buffers& input(const DeviceBuffer& buffer) { return add("input", buffer, Access::read); }
  Buffers& output(const DeviceBuffer& buffer) { return add("output", buffer, Access::write); }
  /// Adds a buffer that was written before the launch and that the launch may write.
  Buffers& in_out(const DeviceBuffer& buffer) { return add("in_out", buffer, Access::read_write); }
  Buffers& add(std::string_view name, const DeviceBuffer& buffer, Access access);
};

struct NoParams {
  int unused = 0;
};

/// Runs `blocks` blocks, in clusters of `cluster`, on the default stream. @throws KernelFault.
template <class Params = NoParams>
void launch(const Kernel& kernel, const Params& params = {}, const Buffers& buffers = {}, int blocks = 1,
            int cluster = 1) {
  static_assert(std::is_trivially_copyable_v<Params>);
  const LaunchShape shape{static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(cluster)};
  kernel.launch(shape, &params, sizeof params, nullptr, &buffers);
}

/// Returns the message of the fault that a launch ends with; empty if it succeeds.
template <class Params = NoParams>
std::string fault_of(const Kernel& kernel, const Params& params = {}, const Buffers& buffers = {},
                     int blocks = 1, int cluster = 1) {
  try {
    launch(kernel, params, buffers, blocks, cluster);
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace fa2::test
