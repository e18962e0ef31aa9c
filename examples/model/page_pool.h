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

/// Returns how many pages `tokens` tokens fill.
inline std::int64_t pages_for(std::int64_t tokens, std::int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

class PagePool {
 public:
  /// Hands out pages in a random order, so that neighbouring pages of a sequence lie far apart, as after a long time of serving.
  PagePool(std::int64_t pages, std::uint64_t seed)
      : free_(static_cast<std::size_t>(pages)), is_taken_(free_.size()) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937_64(seed));
  }

  /// Returns a free page. @throws std::runtime_error if none is left: ask free_pages() first, and let a sequence wait.
  std::int32_t take() {
    if (free_.empty())
      throw std::runtime_error("all " + std::to_string(pages()) + " pages of the cache are taken");
    const std::int32_t page = free_.back();
    free_.pop_back();
    is_taken_[static_cast<std::size_t>(page)] = true;
    return page;
  }

  /// Makes a page free. @throws std::logic_error if it is not taken.
  void give_back(std::int32_t page) {
    if (page < 0 || page >= pages() || !is_taken_[static_cast<std::size_t>(page)])
      throw std::logic_error("page " + std::to_string(page) + " is given back, but is not taken");
    is_taken_[static_cast<std::size_t>(page)] = false;
    free_.push_back(page);
  }

  std::int64_t pages() const { return static_cast<std::int64_t>(is_taken_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  std::vector<std::int32_t> free_;
  std::vector<bool> is_taken_;
};

}  // namespace example
