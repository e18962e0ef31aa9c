// take() reserves the space that give_back() needs, which must not allocate.
#include <runtime/free_list.h>

namespace fa2 {

std::optional<std::uint32_t> FreeList::take() {
  const std::lock_guard lock(mutex_);
  if (!returned_.empty()) {
    const std::uint32_t number = returned_.back();
    returned_.pop_back();
    return number;
  }
  if (never_lent_ == capacity_) return std::nullopt;
  if (returned_.capacity() == never_lent_) returned_.reserve(std::size_t{2} * never_lent_ + 1);
  return never_lent_++;
}

void FreeList::give_back(std::uint32_t number) noexcept {
  const std::lock_guard lock(mutex_);
  returned_.push_back(number);
}

}  // namespace fa2
