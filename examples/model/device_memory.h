// Memory where fa2 computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace example {

/// GPU memory by the driver alone, opened at run time as fa2 opens it; on the interpreter, whose memory is the host's, a buffer
/// there. Any other device pointer will do as well: cudaMalloc's, a framework's.
class DeviceMemory {
 public:
  /// @throws std::runtime_error naming the driver's function that fails, as the others do.
  DeviceMemory(std::size_t bytes, bool on_gpu);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// As many values as there are in the vector; both wait until it is done, the download for the launches before it, too.
  template <class T>
  void upload(const std::vector<T>& values) {
    upload(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  void download(std::vector<T>& values) const {
    download(values.data(), values.size() * sizeof(T));
  }

  std::size_t size() const { return bytes_; }
  /// The address of an element.
  template <class T>
  T* at(std::int64_t index) const {
    return static_cast<T*>(address_) + index;
  }

 private:
  void upload(const void* host, std::size_t bytes);
  void download(void* host, std::size_t bytes) const;
  void require(std::size_t bytes) const;

  std::size_t bytes_;
  bool on_gpu_;
  std::vector<std::byte> host_;
  void* address_ = nullptr;
};

}  // namespace example
