// Wraps a kernel's body into a translation unit.
#include "small_kernel.h"

#include <core/hash.h>
#include <fmt/format.h>
#include <generator/embedded.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_cache.h>

#include "device_under_test.h"
#include "gpu_attention.h"

namespace fa2::test {

KernelSource source_of(const SmallKernel& kernel, const Arch& arch) {
  std::string text;
  const std::vector<SourceFile> headers = device_headers("", arch, {wgmma_header(kernel.wgmma_shapes)});
  for (const SourceFile& header : headers) {
    if (header.name.starts_with("ptx/")) text += fmt::format("#include \"{}\"\n", header.name);
  }
  for (const std::string& header : kernel.headers) text += fmt::format("#include \"{}\"\n", header);
  text += fmt::format(
      "using namespace fa2;\nusing namespace fa2::ptx;\nstruct Params {{ {} }};\n"
      "FA2_KERNEL({}, 1) small_kernel(FA2_KERNEL_PARAMETER(Params) p) {{\n(void)p;\n#line 1 "
      "\"body\"\n{}\n}}\n",
      kernel.params, kernel.threads, kernel.body);
  KernelSource source;
  source.spec = "small kernel";
  source.entry = "small_kernel";
  source.arch = arch;
  source.main = {"small_kernel.cu", text};
  source.headers = headers;
  for (const SourceFile& header : source.headers) text += header.text;
  source.key = content_hash(text);
  source.options = compile_options(arch);
  source.threads = kernel.threads;
  source.shared_bytes = kernel.shared_bytes;
  return source;
}

std::shared_ptr<const Kernel> build(const SmallKernel& kernel) {
  const Device& device = fa2::device(device_under_test());
  if (device.arch.interpreted) {
    static KernelCache cache(
        interpreter::make_host_compiler(), {},
        std::make_shared<DiskCache>(untuned().cache_dir.value(), DiskCache::Access::read_write), JitMode::on);
    return interpreter::load_interpreted_kernel(*cache.get(source_of(kernel, device.arch)).binary,
                                                interpreter::options_from_environment());
  }
  static const std::unique_ptr<Compiler> compiler = make_nvrtc_compiler();
  return load_cuda_kernel(compiler->compile(source_of(kernel, device.arch)), device.ordinal);
}

KernelBinary compile_for_interpreter(const SmallKernel& kernel) {
  static const std::unique_ptr<Compiler> compiler = interpreter::make_host_compiler();
  return compiler->compile(source_of(kernel, interpreter_arch()));
}

std::shared_ptr<const Kernel> build(const SmallKernel& kernel, const interpreter::Options& options) {
  return interpreter::load_interpreted_kernel(compile_for_interpreter(kernel), options);
}

Buffers& Buffers::add(std::string_view name, const DeviceBuffer& buffer, Access access) {
  list.push_back({.name = name,
                  .begin = static_cast<const std::byte*>(buffer.data()),
                  .bytes = buffer.size(),
                  .access = access});
  return *this;
}

}  // namespace fa2::test
