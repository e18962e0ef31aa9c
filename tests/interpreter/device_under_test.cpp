#include "../support/device_under_test.h"

#include <runtime/device.h>

int fa2::test::device_under_test() {
  return kInterpreterDevice;
}
