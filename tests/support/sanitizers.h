// The sanitizers that a file is compiled with.
#pragma once

#include <doctest/doctest.h>

#ifdef __has_feature
#define FA2_SANITIZES_THREADS __has_feature(thread_sanitizer)
#define FA2_SANITIZES_ADDRESSES __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define FA2_SANITIZES_THREADS 1
#else
#define FA2_SANITIZES_THREADS 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define FA2_SANITIZES_ADDRESSES 1
#else
#define FA2_SANITIZES_ADDRESSES 0
#endif
#endif

namespace fa2::test {

/// Returns whether the calling test must skip work on the interpreter, and says so.
inline bool cannot_interpret() {
  if (!FA2_SANITIZES_ADDRESSES && !FA2_SANITIZES_THREADS) return false;
  MESSAGE("skipped: sanitizers do not follow the interpreter from stack to stack");
  return true;
}

}  // namespace fa2::test
