// Counts what a piece of code allocates: allocations.cpp replaces the global operator new.
#pragma once

#include <cstddef>

namespace fa2::test {

/// Whether nothing is counted, since ThreadSanitizer has an operator new of its own; says so.
bool cannot_count_allocations();

/// Calls of any operator new by this thread so far.
std::size_t allocations_so_far();

/// Those of `call`.
template <class Call>
std::size_t allocations_of(const Call& call) {
  const std::size_t before = allocations_so_far();
  call();
  return allocations_so_far() - before;
}

}  // namespace fa2::test
