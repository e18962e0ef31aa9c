// Tells ThreadSanitizer about the reference counts of exceptions. Threads that wait for one future share its
// exception, and the last to release it destroys it. libstdc++ orders this by atomics that are not
// instrumented, so ThreadSanitizer would report a race with another thread's last read.
#include "sanitizers.h"

#if FA2_SANITIZES_THREADS
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <exception>

namespace {

template <class Function>
Function* next_named(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Acts like the atomic decrement that follows: it comes after every earlier one and before every later one.
void order(void* exception) {
  ::__tsan_acquire(exception);
  ::__tsan_release(exception);
}

}  // namespace

extern "C" void release_exception(void** pointer) asm("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");

/// Replaces std::exception_ptr::_M_release().
extern "C" void release_exception(void** pointer) {
  static const auto release = next_named<void(void**)>("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
  order(*pointer);
  release(pointer);
}

/// Replaces the C++ runtime's function, which releases the caught exception at the end of a catch block.
extern "C" void __cxa_end_catch() {
  static const auto end_catch = next_named<void()>("__cxa_end_catch");
  std::current_exception() =
      nullptr;  // current_exception() adds a reference, which release_exception() drops
  end_catch();
}
#endif
