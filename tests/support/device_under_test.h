// What a suite's tests run on: the suites gpu and interpreter share many.
#pragma once

namespace fa2::test {

/// The first GPU; in the interpreter's suite the interpreter.
int device_under_test();

/// Whether there is no NVRTC; says so.
bool nvrtc_missing();

/// Whether that device, or a compiler for it, is missing; says so.
bool cannot_run();

/// The same for kernels of sm_90a, which the interpreter runs too.
bool cannot_run_sm_90a();

}  // namespace fa2::test
