// Which bytes of memory the launches of one plan run have written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// When something was written, seen from the launch that runs. In order.
enum class Written : std::uint8_t { never, before, now };

/// One a plan run, and empty when it begins. Interpreted launches alone look at it: until one does, nothing is
/// allocated. Its cells may be used by all blocks of a launch at once, its functions by one thread between
/// launches.
class WrittenBytes {
 public:
  /// Of the two bytes from an even address on.
  using Cell = std::atomic<Written>;

  /// What was written until here was written before the launch that begins.
  void begin_launch();

  /// Follows a range from here on, and as one with what it overlaps: cells may move.
  void track(const std::byte* begin, std::size_t bytes);

  /// Of an address in a tracked range; the cells of the rest of the range follow it.
  Cell* cell_of(const void* address) const;

 private:
  struct Region {
    std::uintptr_t begin = 0;  ///< half an address, as is `end`
    std::uintptr_t end = 0;
    std::unique_ptr<Cell[]> cells;
  };

  std::vector<Region> regions_;  ///< disjoint
};

}  // namespace fa2
