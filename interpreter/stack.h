// A thread's stack, reused by one fiber after the other, because mapping memory costs more than a small
// block's work.
#pragma once

#include <unistd.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <cstring>

namespace fa2::interpreter {

/// Replaces Boost's traits, which are compiled for executables. They would give libfa2 thread-local storage
/// for which a running process may have no room, for example after PyTorch.
struct StackTraits {
  static std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
};

/// A stack that ends in a protected page.
class Stack {
 public:
  Stack() : stack_(allocator().allocate()) {}
  ~Stack() { allocator().deallocate(stack_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// A stack allocator for one fiber, which must end before the next one starts. Unwritten registers of a
  /// kernel read as NaN.
  struct Loan {
    boost::context::stack_context stack;
    boost::context::stack_context allocate() const { return stack; }
    void deallocate(boost::context::stack_context&) const noexcept {}
  };
  Loan lend() const {
    std::memset(static_cast<std::byte*>(stack_.sp) - kPoisonedBytes, 0xff, kPoisonedBytes);
    return {stack_};
  }

 private:
  static constexpr std::size_t kBytes = 256 << 10;
  static constexpr std::size_t kPoisonedBytes = 16 << 10;  ///< more than a kernel's frame
  using Allocator = boost::context::basic_protected_fixedsize_stack<StackTraits>;
  static Allocator allocator() { return Allocator(kBytes); }

  boost::context::stack_context stack_;
};

}  // namespace fa2::interpreter
