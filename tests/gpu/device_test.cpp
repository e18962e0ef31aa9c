// Devices, contexts, pointers, buffers, streams and launches on a real GPU.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/driver.h>
#include <runtime/kernel.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../support/captured_graph.h"

namespace {

bool no_gpu() {
  if (fa2::device_count() > 0) return false;
  MESSAGE("skipped: no CUDA GPU");
  return true;
}

struct Params {
  std::uint32_t* out;
  std::uint32_t offset;
};

/// Returns a kernel that sets out[i] = offset + i for i = block * 64 + thread, through 64 KB of dynamic
/// shared memory.
fa2::KernelBinary counting_kernel(const fa2::Arch& arch) {
  fa2::KernelSource source;
  source.key = "0123456789abcdef0123456789abcdef";
  source.spec = "counting kernel";
  source.entry = "count";
  source.arch = arch;
  source.main = {"count.cu", R"(
struct Params { unsigned* out; unsigned offset; };
extern "C" __global__ void count(const __grid_constant__ Params params) {
  extern __shared__ unsigned shared[];
  const unsigned far = 64 * 1024 / 4 - 64 + threadIdx.x;
  const unsigned index = blockIdx.x * 64 + threadIdx.x;
  shared[far] = params.offset + index;
  __syncthreads();
  params.out[index] = shared[far];
})"};
  source.options = {"--gpu-architecture=" + std::string(arch.name), "--std=c++17", "--no-cache",
                    "--ptxas-options=-v"};
  source.threads = 64;
  source.shared_bytes = 64 * 1024;
  return fa2::make_nvrtc_compiler()->compile(source);
}

std::shared_ptr<const fa2::Kernel> load_counting_kernel() {
  try {
    return fa2::load_cuda_kernel(counting_kernel(fa2::device(0).arch), 0);
  } catch (const fa2::Unavailable& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return nullptr;
  }
}

std::vector<std::uint32_t> downloaded(const fa2::DeviceBuffer& buffer) {
  std::vector<std::uint32_t> values(buffer.size() / sizeof(std::uint32_t));
  buffer.download(values.data(), buffer.size());
  return values;
}

std::vector<std::uint32_t> counted(std::uint32_t offset, std::size_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = offset + i;
  return values;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  fa2::check(fa2::driver().ctx_get_current(&context), "cuCtxGetCurrent");
  return context;
}

}  // namespace

TEST_CASE("without a driver there are no devices and no version") {
  if (fa2::device_count() > 0) {
    CHECK(fa2::driver_version().find('.') != std::string::npos);
    return;
  }
  CHECK_THROWS_AS(fa2::device(0), fa2::Unavailable);
}

TEST_CASE("a device has a name, SMs, memory and an arch of its major version") {
  if (no_gpu()) return;
  const fa2::Device& device = fa2::device(0);
  CHECK_FALSE(device.name.empty());
  CHECK(device.sm_count > 0);
  CHECK(device.l2_bytes > 0);
  CHECK(device.memory_bytes > (std::int64_t{1} << 30));
  CHECK(device.arch.compute_capability / 10 == device.major);
  CHECK(&fa2::device(0) == &device);
  CHECK_THROWS_AS(fa2::device(-1), fa2::Unavailable);
  CHECK_THROWS_AS(fa2::device(fa2::device_count()), fa2::Unavailable);
}

TEST_CASE("a scope makes the primary context current, unless a context of the device is current already") {
  if (no_gpu()) return;
  std::thread([] {
    CHECK(current_context() == nullptr);
    CHECK(fa2::current_device() == 0);
    CHECK_FALSE(fa2::is_capturing(nullptr));
    {
      const fa2::ScopedContext outer(0);
      const CUcontext context = current_context();
      CHECK(context != nullptr);
      const fa2::ScopedContext inner(0);
      CHECK(current_context() == context);
    }
    CHECK(current_context() == nullptr);
    const int last = fa2::device_count() - 1;
    const fa2::ScopedContext first(0);
    {
      const fa2::ScopedContext other(last);
      CHECK(fa2::current_device() == last);
    }
    CHECK(fa2::current_device() == 0);
  }).join();
}

TEST_CASE("pointer facts") {
  if (no_gpu()) return;
  const fa2::ScopedContext context(0);
  const fa2::DeviceBuffer buffer(1000);
  for (const int offset : {0, 999}) {
    const auto facts = fa2::pointer_facts(static_cast<char*>(buffer.data()) + offset);
    CHECK((facts.kind == fa2::PointerKind::device));
    CHECK(facts.device == 0);
  }
  int on_the_stack = 0;
  CHECK((fa2::pointer_facts(&on_the_stack).kind == fa2::PointerKind::unregistered));
  CHECK((fa2::pointer_facts(nullptr).kind == fa2::PointerKind::unregistered));

  CUdeviceptr managed = 0;
  const auto allocate =
      reinterpret_cast<PFN_cuMemAllocManaged_v6000>(fa2::driver_function("cuMemAllocManaged", 6000));
  fa2::check(allocate(&managed, 1000, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  CHECK((fa2::pointer_facts(reinterpret_cast<void*>(managed)).kind == fa2::PointerKind::managed));
  fa2::check(fa2::driver().mem_free(managed), "cuMemFree");

  void* pinned = nullptr;
  const auto allocate_host =
      reinterpret_cast<PFN_cuMemAllocHost_v3020>(fa2::driver_function("cuMemAllocHost", 3020));
  const auto free_host =
      reinterpret_cast<PFN_cuMemFreeHost_v2000>(fa2::driver_function("cuMemFreeHost", 2000));
  fa2::check(allocate_host(&pinned, 1000), "cuMemAllocHost");
  CHECK((fa2::pointer_facts(pinned).kind == fa2::PointerKind::pinned_host));
  fa2::check(free_host(pinned), "cuMemFreeHost");
}

TEST_CASE("a buffer fills, uploads, downloads and moves") {
  if (no_gpu()) return;
  const fa2::ScopedContext context(0);
  fa2::DeviceBuffer buffer(16);
  buffer.fill(0xab);
  CHECK(downloaded(buffer) == std::vector<std::uint32_t>(4, 0xababababu));
  const std::uint32_t value = 7;
  buffer.upload(&value, 4, 8);
  const fa2::DeviceBuffer moved = std::move(buffer);
  CHECK(downloaded(moved) == std::vector<std::uint32_t>{0xababababu, 0xababababu, 7, 0xababababu});
  CHECK(fa2::DeviceBuffer(0).data() == nullptr);

  fa2::DeviceBuffer small(8);
  CHECK_THROWS_AS(small.upload(&value, 4, 5), fa2::Error);
  CHECK_THROWS_AS(fa2::DeviceBuffer(std::size_t{1} << 60), fa2::CudaError);
}

TEST_CASE("a kernel launches on a stream, timed by events") {
  if (no_gpu()) return;
  const auto kernel = load_counting_kernel();
  if (kernel == nullptr) return;
  const fa2::ScopedContext context(0);
  const fa2::OwnedStream stream;
  const fa2::DeviceBuffer out(64 * 3 * sizeof(std::uint32_t));
  fa2::StreamTimer timer;
  timer.start(stream.get());
  Params params{static_cast<std::uint32_t*>(out.data()), 100};
  kernel->launch({3}, &params, sizeof(params), stream.get(), nullptr);
  params.offset = 0;  // the launch has copied the parameters
  timer.stop(stream.get());
  CHECK(timer.elapsed_ms() > 0);
  CHECK(downloaded(out) == counted(100, 64 * 3));
}

TEST_CASE("a kernel is captured, and the capture is detected, also from the default stream") {
  if (no_gpu()) return;
  const auto kernel = load_counting_kernel();
  if (kernel == nullptr) return;
  const fa2::ScopedContext context(0);
  fa2::DeviceBuffer out(64 * sizeof(std::uint32_t));
  out.fill(0);
  CUstream stream = nullptr;
  fa2::check(fa2::driver().stream_create_with_priority(&stream, CU_STREAM_DEFAULT, 0),
             "cuStreamCreateWithPriority");
  CHECK_FALSE(fa2::is_capturing(stream));
  CHECK_FALSE(fa2::is_capturing(nullptr));

  fa2::test::CapturedGraph graph(stream);
  graph.begin();
  CHECK(fa2::is_capturing(stream));
  CHECK(fa2::is_capturing(nullptr));
  CHECK((fa2::pointer_facts(out.data()).kind == fa2::PointerKind::device));
  const Params params{static_cast<std::uint32_t*>(out.data()), 5};
  kernel->launch({1}, &params, sizeof(params), stream, nullptr);
  graph.end();

  CHECK_FALSE(fa2::is_capturing(stream));
  CHECK(downloaded(out) == std::vector<std::uint32_t>(64, 0));
  graph.launch();
  fa2::check(fa2::driver().stream_synchronize(stream), "cuStreamSynchronize");
  CHECK(downloaded(out) == counted(5, 64));
  fa2::check(fa2::driver().stream_destroy(stream), "cuStreamDestroy");
}

TEST_CASE("code that cannot be loaded gives a CudaError that names the kernel") {
  if (no_gpu()) return;
  fa2::KernelBinary binary;
  binary.spec = "garbage kernel";
  binary.arch = "sm_80";
  binary.entry = "none";
  binary.resources.threads = 32;
  binary.code.assign(4096, std::byte{1});
  try {
    fa2::load_cuda_kernel(binary, 0);
    FAIL("garbage was loaded");
  } catch (const fa2::CudaError& error) {
    CHECK(std::string(error.what()).find("garbage kernel") != std::string::npos);
    CHECK(std::string(error.what()).find("CUDA_ERROR_") != std::string::npos);
    CHECK(error.result() != 0);
  }
}
