// Decides whether a test can run on the device of its suite.
#include "device_under_test.h"

#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/compiler.h>
#include <runtime/device.h>

#include <string>

namespace fa2::test {

bool nvrtc_missing() {
  try {
    nvrtc_version();
    return false;
  } catch (const Unavailable& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return true;
  }
}

bool cannot_run() {
  if (device_under_test() == kInterpreterDevice) return false;
  if (device_count() == 0) {
    MESSAGE("skipped: no CUDA GPU");
    return true;
  }
  return nvrtc_missing();
}

bool cannot_run_sm_90a() {
  if (cannot_run()) return true;
  const Arch& arch = device(device_under_test()).arch;
  if (arch.interpreted || arch.name == "sm_90a") return false;
  MESSAGE("skipped: needs an sm_90a GPU, this one is " << std::string(arch.name));
  return true;
}

bool cannot_count_bank_conflicts() {
  if (device_under_test() == kInterpreterDevice) return false;
  MESSAGE("skipped: only the interpreter counts bank conflicts");
  return true;
}

}  // namespace fa2::test
