// Counts the allocations of a piece of code: allocations.cpp replaces the global operator new.
#pragma once

#include <cstddef>

namespace fa2::test {

/// Returns whether counting is impossible, because ThreadSanitizer brings its own operator new. Says so.
bool cannot_count_allocations();

/// Returns how often this thread has called any operator new so far.
std::size_t allocations_so_far();

/// Returns the allocations of `call`.
template <class Call>
std::size_t allocations_of(const Call& call) {
  const std::size_t before = allocations_so_far();
  call();
  return allocations_so_far() - before;
}

}  // namespace fa2::test
