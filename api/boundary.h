// Exceptions at the library's boundary: a public function that can fail ends in `catch (...) { rethrow_as_error(); }`.
#pragma once

namespace fa2 {

/// Rethrows the current exception as an Error: an Error as it is, a failed system call as Unavailable, anything else as
/// internal.
[[noreturn]] void rethrow_as_error();

}  // namespace fa2
