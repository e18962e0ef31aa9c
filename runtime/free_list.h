// Numbers that are lent and come back.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace fa2 {

/// The numbers below a capacity, each lent to one at a time. Thread-safe.
class FreeList {
 public:
  explicit FreeList(std::uint32_t capacity) : capacity_(capacity) {}

  /// The one that came back last, else the least that was never lent. None if all are lent.
  std::optional<std::uint32_t> take();

  /// Of a number that take() gave. Allocates nothing.
  void give_back(std::uint32_t number) noexcept;

 private:
  const std::uint32_t capacity_;
  std::mutex mutex_;
  std::vector<std::uint32_t> returned_;  ///< with room for every number that was ever lent
  std::uint32_t never_lent_ = 0;         ///< the least of them
};

}  // namespace fa2
