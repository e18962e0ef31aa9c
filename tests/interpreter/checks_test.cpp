// Every rule that the interpreter holds a kernel to: a kernel that breaks it is stopped, and runs once
// mended.
#include <doctest/doctest.h>

#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("a load of shared memory that nothing wrote") {
  const auto broken = build({"ld_shared_u32(dynamic_shared());"}, {});
  CHECK(fault_of(*broken).find("nothing has written") != std::string::npos);
  CHECK(fault_of(*broken).find("body:1") != std::string::npos);
  const auto mended = build({"st_shared_u32(dynamic_shared() + 4 * lane_index(), 1);\n"
                             "ld_shared_u32(dynamic_shared() + 4 * lane_index());"},
                            {});
  CHECK(fault_of(*mended) == "");
}
