// The bytes that one tensor copy moves between a tensor in global memory and a dense box in shared memory.
#pragma once

#include <runtime/tensor_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fa2::interpreter {

/// Returns the permuted address of a byte in shared memory.
inline std::uint32_t swizzled(Swizzle swizzle, std::uint32_t address) {
  const auto chunks = static_cast<std::uint32_t>(span_of(swizzle)) / 16;
  return address ^ ((address >> 7 & (chunks - 1)) << 4);
}

class TensorBox {
 public:
  /// `at`: coordinates of the box's first element, which may lie outside the tensor.
  TensorBox(const InterpretedTensorMap& map, const int* at) : map_(map) { std::copy_n(at, kRank, at_); }

  int row_bytes() const { return map_.box[0] * bytes_of(map_.element); }
  int bytes() const { return row_bytes() * map_.box[1] * map_.box[2] * map_.box[3] * map_.box[4]; }

  /// Calls visit(offset, global, first, end) for each row of the box. `offset`: the row's offset in shared
  /// memory. Its bytes [first, end) lie in the tensor, from `global` on; none do if first == end.
  template <class Visit>
  void for_each_row(const Visit& visit) const {
    const int size = bytes_of(map_.element);
    const std::int64_t first = std::clamp<std::int64_t>(-std::int64_t{at_[0]}, 0, map_.box[0]);
    const std::int64_t end = std::clamp<std::int64_t>(extent(0) - at_[0], first, map_.box[0]);
    int offset = 0;
    int step[kRank] = {};
    for (;;) {
      std::int64_t distance = (at_[0] + first) * size;
      bool inside = first < end;
      for (int i = 1; i < kRank; ++i) {
        const std::int64_t coordinate = std::int64_t{at_[i]} + step[i];
        inside &= coordinate >= 0 && coordinate < extent(i);
        distance += coordinate * map_.stride[i];
      }
      visit(offset, inside ? map_.data + distance : nullptr, static_cast<int>(first) * size,
            static_cast<int>(inside ? end : first) * size);
      offset += row_bytes();
      int i = 1;
      while (i < kRank && ++step[i] == map_.box[i]) step[i++] = 0;
      if (i == kRank) return;
    }
  }

 private:
  static constexpr int kRank = 5;
  std::int64_t extent(int i) const { return map_.size[i] == 0 ? std::int64_t{1} << 32 : map_.size[i]; }

  const InterpretedTensorMap& map_;
  int at_[kRank];
};

}  // namespace fa2::interpreter
