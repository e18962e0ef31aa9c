// What texts of scores capture, in memory of the device under test.
#pragma once

#include <fa2/args.h>
#include <fa2/score_text.h>
#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <vector>

namespace fa2::test {

/// Captured memory of the device, and the list for a call.
class Captures {
 public:
  /// Appends a tensor whose elements are `values`, contiguous.
  template <class Value>
  void add(const std::vector<Value>& values, const std::vector<std::int64_t>& sizes) {
    DeviceBuffer& buffer = buffers_.emplace_back(values.size() * sizeof(Value));
    buffer.upload(values.data(), buffer.size());
    ScoreCapture& capture = list_.emplace_back();
    capture.data = buffer.data();
    std::int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i])
      capture.sizes[i] = sizes[i], capture.strides[i] = stride;
  }
  void add(double number) { list_.emplace_back().number = number; }

  /// Overwrites a tensor.
  template <class Value>
  void replace(std::size_t i, const std::vector<Value>& values) {
    std::next(buffers_.begin(), static_cast<std::ptrdiff_t>(i))
        ->upload(values.data(), values.size() * sizeof(Value));
  }

  ScoreCapture& operator[](std::size_t i) { return list_[i]; }
  void give_to(AttentionArgs& args) const {
    args.captures = list_.data();
    args.capture_count = static_cast<std::int64_t>(list_.size());
  }

 private:
  std::list<DeviceBuffer> buffers_;
  std::vector<ScoreCapture> list_;
};

}  // namespace fa2::test
