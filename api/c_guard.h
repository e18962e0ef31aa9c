// What every function of the C interface does: exceptions become codes and the thread's message.
#pragma once

#include <fa2/c_api.h>

#include <string>

namespace fa2 {

/// Of the exception that is being handled; fa2_last_error() has its text then.
fa2_status fail_with_current_exception() noexcept;

/// Runs `body`; every exception becomes a status and the thread's message.
template <class Body>
fa2_status guarded(Body&& body) noexcept {
  try {
    body();
    return FA2_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

/// The caller's to free with fa2_string_free(). @throws std::bad_alloc.
char* allocate_copy(const std::string& text);

}  // namespace fa2
