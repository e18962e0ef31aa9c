// Replaces every form of operator new and delete. AddressSanitizer would report a form that is left out,
// because new and delete would not match.
#include "allocations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "sanitizers.h"

namespace {

thread_local std::size_t allocations = 0;

}  // namespace

namespace fa2::test {

bool cannot_count_allocations() {
  if (FA2_SANITIZES_THREADS) MESSAGE("skipped: ThreadSanitizer's operator new counts nothing");
  return FA2_SANITIZES_THREADS;
}

std::size_t allocations_so_far() {
  return allocations;
}

}  // namespace fa2::test

#if !FA2_SANITIZES_THREADS
namespace {

void* allocate(std::size_t bytes) noexcept {
  ++allocations;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  ++allocations;
  void* memory = nullptr;
  const std::size_t least = std::max(static_cast<std::size_t>(alignment), sizeof(void*));
  return ::posix_memalign(&memory, least, std::max<std::size_t>(bytes, 1)) == 0 ? memory : nullptr;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

using Size = std::size_t;
using Align = std::align_val_t;
using NoThrow = const std::nothrow_t&;

void* operator new(Size bytes) {
  return or_throw(allocate(bytes));
}
void* operator new[](Size bytes) {
  return or_throw(allocate(bytes));
}
void* operator new(Size bytes, NoThrow) noexcept {
  return allocate(bytes);
}
void* operator new[](Size bytes, NoThrow) noexcept {
  return allocate(bytes);
}
void* operator new(Size bytes, Align alignment) {
  return or_throw(allocate(bytes, alignment));
}
void* operator new[](Size bytes, Align alignment) {
  return or_throw(allocate(bytes, alignment));
}
void* operator new(Size bytes, Align alignment, NoThrow) noexcept {
  return allocate(bytes, alignment);
}
void* operator new[](Size bytes, Align alignment, NoThrow) noexcept {
  return allocate(bytes, alignment);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Size) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Size) noexcept {
  std::free(memory);
}
void operator delete(void* memory, NoThrow) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, NoThrow) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Align) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Align) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Size, Align) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Size, Align) noexcept {
  std::free(memory);
}
void operator delete(void* memory, Align, NoThrow) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, Align, NoThrow) noexcept {
  std::free(memory);
}
#endif
