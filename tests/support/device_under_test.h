// The device on which a suite's tests run: the suites gpu and interpreter share many tests.
#pragma once

namespace fa2::test {

/// Returns the interpreter in the interpreter's suite, else the first GPU.
int device_under_test();

/// Returns whether there is no NVRTC, and says so.
bool nvrtc_missing();

/// Returns whether the device under test, or a compiler for it, is missing, and says so.
bool cannot_run();

/// Like cannot_run(), for kernels of sm_90a, which the interpreter also runs.
bool cannot_run_sm_90a();

/// Returns whether the device under test does not count bank conflicts, and says so.
bool cannot_count_bank_conflicts();

}  // namespace fa2::test
