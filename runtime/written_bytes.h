// The bytes that the launches of one plan run have written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// When a byte was written, relative to the current launch; in order.
enum class Written : std::uint8_t { never, before, now };

/// One per plan run, initially empty. Only interpreted launches use it, and until then it allocates nothing.
/// All blocks of a launch may use its cells at once. Only one thread may call its functions, between
/// launches.
class WrittenBytes {
 public:
  /// State of the two bytes at an even address.
  using Cell = std::atomic<Written>;

  /// Marks every byte written so far as written before the next launch. Returns whether that is the run's first.
  bool begin_launch();

  /// Tracks a range from now on, merged with ranges that it overlaps. Cells may move.
  void track(const std::byte* begin, std::size_t bytes);

  /// Returns the cell of an address in a tracked range. The cells of the rest of the range follow it.
  Cell* cell_of(const void* address) const;

 private:
  struct Region {
    std::uintptr_t begin = 0;  ///< half an address, like `end`
    std::uintptr_t end = 0;
    std::unique_ptr<Cell[]> cells;
  };

  std::vector<Region> regions_;  ///< disjoint
  bool has_launched_ = false;
};

}  // namespace fa2
