// Memory of other processes is opened by its handle. That of other devices of this process needs peer access alone.
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/peer_memory.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

namespace fa2 {
namespace {

/// Small allocations may share a block with others, which a handle would show, too.
constexpr std::size_t kBlockBytes = 2 << 20;

std::size_t whole_blocks(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

ProcessIdentity drawn_identity() {
  ProcessIdentity made;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(made.boot.data(), made.boot.size());
  std::random_device random;
  std::ranges::generate(made.process, std::ref(random));
  return made;
}

void reach(int device) {
  CUcontext context = nullptr;
  check(driver().primary_ctx_retain(&context, device), "cuDevicePrimaryCtxRetain");
  const CUresult result = driver().ctx_enable_peer_access(context, 0);
  if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(result, "cuCtxEnablePeerAccess");
}

std::byte* opened(const PeerAddress& address) {
  CUipcMemHandle handle;
  static_assert(sizeof handle == sizeof address.handle);
  std::memcpy(&handle, address.handle.data(), sizeof handle);
  CUdeviceptr data = 0;
  check(driver().ipc_open_mem_handle(&data, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle");
  return reinterpret_cast<std::byte*>(data);
}

}  // namespace

const ProcessIdentity& process_identity() {
  static const ProcessIdentity identity = drawn_identity();
  return identity;
}

SharedBuffer::SharedBuffer(std::size_t bytes) : buffer_(whole_blocks(bytes)) {
  address_ = {process_identity(), current_device(), buffer_.data(), {}};
  const OwnedStream stream;
  buffer_.fill(0, stream.get());
  stream.synchronize();
  if (interpreting()) return;
  CUipcMemHandle handle;
  check(driver().ipc_get_mem_handle(&handle, reinterpret_cast<CUdeviceptr>(buffer_.data())),
        "cuIpcGetMemHandle");
  std::memcpy(address_.handle.data(), &handle, sizeof handle);
}

PeerMapping::PeerMapping(const PeerAddress& address) : data_(nullptr, Close{false}) {
  const bool is_own_process = address.owner == process_identity();
  if (interpreting() && !is_own_process)
    throw Unavailable("the interpreter maps no memory of other processes");
  if (!is_own_process) {
    data_ = {opened(address), Close{true}};
    return;
  }
  if (!interpreting() && address.device != current_device()) reach(address.device);
  data_ = {static_cast<std::byte*>(address.data), Close{false}};
}

void PeerMapping::Close::operator()(std::byte* data) const noexcept {
  if (is_open)
    warn_unless_ok(driver().ipc_close_mem_handle(reinterpret_cast<CUdeviceptr>(data)), "cuIpcCloseMemHandle");
}

}  // namespace fa2
