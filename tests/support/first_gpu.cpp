// The device of every suite that does not define its own: this library's members give way to a suite's objects.
#include "device_under_test.h"

int fa2::test::device_under_test() {
  return 0;
}
