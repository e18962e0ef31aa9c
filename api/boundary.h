// What leaves the library: a public function that can fail ends in `catch (...) { rethrow_as_error(); }`.
#pragma once

namespace fa2 {

/// Rethrows the exception being handled as an Error, which it may be already: the system's refusals are
/// Unavailable, all else is internal.
[[noreturn]] void rethrow_as_error();

}  // namespace fa2
