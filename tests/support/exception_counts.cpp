// Tells ThreadSanitizer of the reference counts of exceptions. Threads that wait for one future share the
// exception in it, and whichever lets go last destroys it; libstdc++ orders that by atomics which, not being
// instrumented, ThreadSanitizer does not see: it would report a race with the last read of another thread.
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

/// As the atomic decrement that follows: after every earlier one, before every later one.
void order(void* exception) {
  ::__tsan_acquire(exception);
  ::__tsan_release(exception);
}

}  // namespace

extern "C" void release_exception(void** pointer) asm("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");

/// In place of std::exception_ptr::_M_release().
extern "C" void release_exception(void** pointer) {
  static const auto release = next_named<void(void**)>("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
  order(*pointer);
  release(pointer);
}

/// In place of the C++ runtime's: the end of a catch block lets go of what it caught.
extern "C" void __cxa_end_catch() {
  static const auto end_catch = next_named<void()>("__cxa_end_catch");
  std::current_exception() = nullptr;  // a reference more, given up by release_exception()
  end_catch();
}
#endif
