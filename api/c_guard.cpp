// Statuses, messages, and the strings that callers own.
#include <api/boundary.h>
#include <api/c_guard.h>
#include <fa2/errors.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Part of the C interface: fa2_last_error() is per thread.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wexit-time-destructors"
#endif
thread_local std::string last_error;  // each thread destroys its own, when it ends
#ifdef __clang__
#pragma clang diagnostic pop
#endif

fa2_status fail(fa2_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

}  // namespace

fa2_status fa2::fail_with_current_exception() noexcept {
  try {
    rethrow_as_error();
  } catch (const Error& error) {
    return fail(static_cast<fa2_status>(error.code()), error.what());
  } catch (...) {  // no memory for an Error's text
    return fail(FA2_INTERNAL, "out of host memory");
  }
}

char* fa2::allocate_copy(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

const char* fa2_last_error(void) {
  return last_error.c_str();
}

void fa2_string_free(char* text) {
  std::free(text);
}
