// Memory on the device where fa2 computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace example {

/// GPU memory from the driver, which is opened at run time; for the interpreter, host memory. fa2 takes any other device pointer
/// too, such as cudaMalloc's or a framework's.
class DeviceMemory {
 public:
  /// @throws std::runtime_error that names the driver's function that failed, like all members.
  DeviceMemory(std::size_t bytes, bool on_gpu);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Copy as many values as the vector has, and wait for the copy. download() also waits for earlier launches.
  template <class T>
  void upload(const std::vector<T>& values) {
    upload(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  void download(std::vector<T>& values) const {
    download(values.data(), values.size() * sizeof(T));
  }

  std::size_t size() const { return bytes_; }
  /// Returns the address of an element.
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
