// Kernels of a few lines over the instructions of templates/ptx, to prove one rule of the machine at a time.
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
  /// Of the kernel function; its parameter is `p`. All of fa2 and fa2::ptx is in reach. Its first line is
  /// line 1 of the file "body".
  std::string body;
  std::string params = "int unused;";  ///< the members of p
  int threads = 32;
  int shared_bytes = 1024;
  std::vector<WgmmaShape> wgmma_shapes = {};
  std::vector<std::string> headers = {};  ///< from templates/, to include after those of templates/ptx
};

/// With every header of templates/ptx included. For any arch.
KernelSource source_of(const SmallKernel& kernel, const Arch& arch);

/// Compiled and loaded for the device under test.
std::shared_ptr<const Kernel> build(const SmallKernel& kernel);

/// By the host's compiler. From any thread.
KernelBinary compile_for_interpreter(const SmallKernel& kernel);

/// Compiled for the interpreter, whatever the device under test is.
std::shared_ptr<const Kernel> build(const SmallKernel& kernel, const interpreter::Options& options);

/// The buffers of a launch, as the interpreter is told of them.
struct Buffers final : LaunchMemory {
  std::vector<MemoryRange> list;
  std::vector<MemoryRange> ranges() const override { return list; }

  Buffers& input(const DeviceBuffer& buffer) { return add("input", buffer, Access::read); }
  Buffers& output(const DeviceBuffer& buffer) { return add("output", buffer, Access::write); }
  /// Written before the launch, and by it.
  Buffers& in_out(const DeviceBuffer& buffer) { return add("in_out", buffer, Access::read_write); }
  Buffers& add(std::string_view name, const DeviceBuffer& buffer, Access access);
};

struct NoParams {
  int unused = 0;
};

/// Runs `blocks` blocks, `cluster` of them a cluster, on the default stream. @throws KernelFault.
template <class Params = NoParams>
void launch(const Kernel& kernel, const Params& params = {}, const Buffers& buffers = {}, int blocks = 1,
            int cluster = 1) {
  static_assert(std::is_trivially_copyable_v<Params>);
  const LaunchShape shape{static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(cluster)};
  kernel.launch(shape, &params, sizeof params, nullptr, &buffers);
}

/// The message of the fault that a launch ends with; empty if it ends well.
template <class Params = NoParams>
std::string fault_of(const Kernel& kernel, const Params& params = {}, const Buffers& buffers = {},
                     int blocks = 1) {
  try {
    launch(kernel, params, buffers, blocks);
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace fa2::test
