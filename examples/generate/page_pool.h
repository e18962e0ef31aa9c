// The free pages of a cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

class PagePool {
 public:
  /// Hands out pages in a random order, so that neighbouring pages of a sequence lie far apart, as after a long time of serving.
  PagePool(std::int64_t pages, std::uint64_t seed) : pages_(pages), free_(static_cast<std::size_t>(pages)) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937_64(seed));
  }

  /// Returns a free page. @throws std::runtime_error if none is left, where a serving engine would let a sequence wait.
  std::int32_t take() {
    if (free_.empty())
      throw std::runtime_error("all " + std::to_string(pages_) + " pages of the cache are taken");
    const std::int32_t page = free_.back();
    free_.pop_back();
    return page;
  }

 private:
  std::int64_t pages_;
  std::vector<std::int32_t> free_;
};

}  // namespace example
