// Tables of a plan in device memory.
#pragma once

#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fa2 {

/// Tables of int32, collected on the host, then uploaded at once.
class DeviceTables {
 public:
  /// Adds a table. Returns its number.
  std::size_t add(const std::vector<std::int32_t>& table) {
    starts_.push_back(values_.size());
    values_.insert(values_.end(), table.begin(), table.end());
    while (values_.size() % kAlignment != 0) values_.push_back(0);
    return starts_.size() - 1;
  }

  /// Copies all tables to the current device. None may be added afterwards.
  void upload() {
    buffer_.emplace(values_.size() * sizeof(std::int32_t));
    buffer_->upload(values_.data(), buffer_->size());
    values_.clear();
  }

  const std::int32_t* at(std::size_t number) const {
    return static_cast<const std::int32_t*>(buffer_->data()) + starts_[number];
  }

 private:
  static constexpr std::size_t kAlignment = 64;  // words

  std::vector<std::size_t> starts_;
  std::vector<std::int32_t> values_;
  std::optional<DeviceBuffer> buffer_;
};

}  // namespace fa2
