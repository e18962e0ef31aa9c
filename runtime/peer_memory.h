// Device memory that other processes of this host can map. On the interpreter other threads of this process can, too.
#pragma once

#include <runtime/device_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace fa2 {

/// Identifies a host and a process on it. Plain bytes, which ranks send each other.
struct ProcessIdentity {
  std::array<char, 36> boot{};  ///< the kernel's boot id; zeros where there is none
  std::array<std::uint32_t, 4>
      process{};  ///< drawn at random once per process, because containers repeat numbers of processes

  bool has_host_of(const ProcessIdentity& other) const { return boot == other.boot && boot[0] != '\0'; }
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Returns that of this process.
const ProcessIdentity& process_identity();

/// Where memory is. Plain bytes, which ranks send each other.
struct PeerAddress {
  ProcessIdentity owner;
  void* data = nullptr;                ///< in the owner's address space
  std::array<std::byte, 64> handle{};  ///< CUipcMemHandle; zeros on the interpreter
};

/// Memory of the current device that others can map. Filled with zeros.
class SharedBuffer {
 public:
  /// @throws CudaError, for example where the system shares no memory between processes.
  explicit SharedBuffer(std::size_t bytes);

  std::byte* data() const { return static_cast<std::byte*>(buffer_.data()); }
  /// As DeviceBuffer's, to the beginning.
  void upload(const void* host, std::size_t bytes, Stream stream) { buffer_.upload(host, bytes, 0, stream); }
  const PeerAddress& address() const { return address_; }

 private:
  DeviceBuffer buffer_;
  PeerAddress address_;
};

/// Another rank's memory in this one's address space, for copies on streams of the current device. Its context must be current at
/// destruction, too.
class PeerMapping {
 public:
  /// @throws CudaError if the current device cannot reach it; Unavailable if it is this process's on a GPU, or another's on the interpreter.
  explicit PeerMapping(const PeerAddress& address);

  std::byte* data() const { return data_.get(); }

 private:
  struct Close {
    bool is_open;  ///< by its handle
    void operator()(std::byte* data) const noexcept;
  };

  std::unique_ptr<std::byte, Close> data_;
};

}  // namespace fa2
