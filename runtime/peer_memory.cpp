// Memory of other processes is opened by its handle. On the interpreter threads share their addresses.
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/peer_memory.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
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
  address_ = {process_identity(), buffer_.data(), {}};
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
  if (interpreting() != (address.owner == process_identity()))
    throw Unavailable("GPUs map no memory of their own process, and the interpreter none of others");
  data_ = interpreting()
              ? std::unique_ptr<std::byte, Close>(static_cast<std::byte*>(address.data), Close{false})
              : std::unique_ptr<std::byte, Close>(opened(address), Close{true});
}

void PeerMapping::Close::operator()(std::byte* data) const noexcept {
  if (is_open)
    warn_unless_ok(driver().ipc_close_mem_handle(reinterpret_cast<CUdeviceptr>(data)), "cuIpcCloseMemHandle");
}

}  // namespace fa2
