// Stores one cell per two bytes, in regions that merge if ranges overlap.
#include <runtime/written_bytes.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace fa2 {

bool WrittenBytes::begin_launch() {
  for (Region& region : regions_) {
    for (std::uintptr_t i = 0; i < region.end - region.begin; ++i) {
      if (region.cells[i].load(std::memory_order_relaxed) == Written::now)
        region.cells[i].store(Written::before, std::memory_order_relaxed);
    }
  }
  return !std::exchange(has_launched_, true);
}

void WrittenBytes::track(const std::byte* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  Region wanted{address / 2, (address + bytes + 1) / 2, nullptr};
  const auto overlaps = [&wanted](const Region& region) {
    return region.begin < wanted.end && wanted.begin < region.end;
  };
  const auto first = std::partition(regions_.begin(), regions_.end(), std::not_fn(overlaps));
  if (regions_.end() - first == 1 && first->begin <= wanted.begin && wanted.end <= first->end) return;
  for (auto region = first; region != regions_.end(); ++region) {
    wanted.begin = std::min(wanted.begin, region->begin);
    wanted.end = std::max(wanted.end, region->end);
  }
  wanted.cells = std::make_unique<Cell[]>(wanted.end - wanted.begin);
  for (auto region = first; region != regions_.end(); ++region) {
    for (std::uintptr_t i = region->begin; i < region->end; ++i)
      wanted.cells[i - wanted.begin] = region->cells[i - region->begin].load(std::memory_order_relaxed);
  }
  regions_.erase(first, regions_.end());
  regions_.push_back(std::move(wanted));
}

WrittenBytes::Cell* WrittenBytes::cell_of(const void* address) const {
  const auto half = reinterpret_cast<std::uintptr_t>(address) / 2;
  const auto found = std::ranges::find_if(
      regions_, [half](const Region& region) { return region.begin <= half && half < region.end; });
  return found == regions_.end() ? nullptr : &found->cells[half - found->begin];
}

}  // namespace fa2
