// Turns exceptions of C functions into a status and the thread's message.
#pragma once

#include <fa2/c_api.h>

#include <string>

namespace fa2 {

/// Returns the status of the exception that is being handled, and keeps its text for fa2_last_error().
fa2_status fail_with_current_exception() noexcept;

/// Runs `body`. Returns FA2_OK, or the status of its exception.
template <class Body>
fa2_status guarded(Body&& body) noexcept {
  try {
    body();
    return FA2_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

/// Returns a copy that the caller must free with fa2_string_free(). @throws std::bad_alloc.
char* allocate_copy(const std::string& text);

}  // namespace fa2
