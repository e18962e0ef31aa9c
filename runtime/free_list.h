// Numbers that are taken and given back.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace fa2 {

/// The numbers below a capacity; each has at most one holder. Thread-safe.
class FreeList {
 public:
  explicit FreeList(std::uint32_t capacity) : capacity_(capacity) {}

  /// Returns the number given back last, else the smallest unused one; nullopt if all are taken.
  std::optional<std::uint32_t> take();

  /// Gives back a number from take(). Allocates nothing.
  void give_back(std::uint32_t number) noexcept;

 private:
  const std::uint32_t capacity_;
  std::mutex mutex_;
  std::vector<std::uint32_t> returned_;  ///< has room for every number ever taken
  std::uint32_t never_lent_ = 0;         ///< the smallest number never taken
};

}  // namespace fa2
