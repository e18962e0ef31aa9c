// The interpreter's checks of mbarriers and named barriers.
#include <doctest/doctest.h>

#include "hopper_case.h"

using namespace fa2::test;

TEST_CASE("mbarriers: initialisation") {
  check_cases({
      {"an mbarrier that nobody initialised",
       "mbarrier_arrive(dynamic_shared());",
       "if (thread_index() == 0) {\n mbarrier_init(dynamic_shared(), 2);\n "
       "mbarrier_arrive(dynamic_shared());\n}",
       {"mbarrier.arrive at shared address 1024, where nothing has initialised an mbarrier"}},
      {"a misaligned mbarrier",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared() + 4, 1);",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared() + 8, 1);",
       {"mbarrier.init of 8 bytes at shared address 1028: misaligned"}},
      {"an initialisation that others may not have seen",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared(), 32);\nif (thread_index() / 32 == 1) "
       "mbarrier_arrive(dynamic_shared());",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared(), 32);\nbar_sync();\nif (warp_index() == 1) "
       "mbarrier_arrive(dynamic_shared());",
       {"race: mbarrier.arrive on the mbarrier at 1024 by thread 32, and its init by thread 0",
        "where nothing has initialised an mbarrier"}},
      {"a second initialisation",
       kInit + "if (thread_index() == 0) mbarrier_init(bar, 1);",
       kInit,
       {"mbarrier.init of the mbarrier at 9216 (phase 0: 1 of 1 arrivals and 0 bytes are missing), "
        "which is already an mbarrier"}},
      {"an mbarrier of no arrivals",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared(), 0);",
       "if (thread_index() == 0) mbarrier_init(dynamic_shared(), 1);",
       {"mbarrier.init: arrivals = 0, must be 1"}},
      {"a plain load of an mbarrier",
       kInit + "ld_shared_u32(bar);",
       kInit,
       {"load of shared address 9216, which belongs to an mbarrier"}},
      {"a plain store to an mbarrier",
       kInit + "if (thread_index() == 5) st_shared_u32(bar + 4, 0);",
       kInit + "if (thread_index() == 5) st_shared_u32(bar + 8, 0);",
       {"store to shared address 9220, which belongs to an mbarrier\nkernel small kernel, block 0, thread "
        "5"}},
  });
}

TEST_CASE("mbarriers: phases") {
  check_cases({
      {"too many arrivals",
       kInit + "if (thread_index() < 2) mbarrier_arrive_expect_tx(bar, 16);",
       kInit + "if (thread_index() < 2) mbarrier_arrive(bar);",
       {"one arrival too many, the phase takes 1"}},
      {"more bytes than can be counted",
       kInit + "if (thread_index() == 0) mbarrier_arrive_expect_tx(bar, 1 << 20);",
       kInit + "if (thread_index() == 0) mbarrier_arrive_expect_tx(bar, (1 << 20) - 1);",
       {"expect_tx of 1048576 bytes"}},
      {"a parity that is none",
       kInit + "mbarrier_wait(bar, 2);",
       kInit + "mbarrier_wait(bar, 1);",
       {"mbarrier.try_wait: parity = 2, must be 0 or 1"}},
      {"a phase that nobody completes",
       kInit + "mbarrier_wait(bar, 0);",
       kInit + "if (thread_index() == 7) mbarrier_arrive(bar);\nmbarrier_wait(bar, 0);",
       {"deadlock: every thread waits\nkernel small kernel, block 0:\n  64 of 64 threads (thread 0 the "
        "first): waits at "
        "body:2 for the mbarrier at 9216 (phase 0: 1 of 1 arrivals and 0 bytes are missing)"}},
      {"a phase that is waited for with the wrong parity",
       kInit + "if (thread_index() == 0) {\n st_shared_u32(dynamic_shared(), 1);\n mbarrier_arrive(bar);\n}\n"
               "mbarrier_wait(bar, 1);\nld_shared_u32(dynamic_shared());",
       kInit + "if (thread_index() == 0) {\n st_shared_u32(dynamic_shared(), 1);\n mbarrier_arrive(bar);\n}\n"
               "mbarrier_wait(bar, 0);\nld_shared_u32(dynamic_shared());",
       {"race: load of shared address 1024 by thread", "which nothing has written", "deadlock"}},
      {"data stored after the arrival",
       kInit + "if (thread_index() == 0) {\n mbarrier_arrive(bar);\n st_shared_u32(dynamic_shared(), 1);\n}\n"
               "mbarrier_wait(bar, 0);\nld_shared_u32(dynamic_shared());",
       kInit + "if (thread_index() == 0) {\n st_shared_u32(dynamic_shared(), 1);\n mbarrier_arrive(bar);\n}\n"
               "mbarrier_wait(bar, 0);\nld_shared_u32(dynamic_shared());",
       {"race: load of shared address 1024 by thread", "which nothing has written"}},
      {"data that is overwritten before its readers have arrived",
       kInit + "if (warp_index() == 0) {\n st_shared_u32(dynamic_shared() + 4 * thread_index(), 1);\n "
               "bar_arrive(1, 64);\n"
               " st_shared_u32(dynamic_shared() + 4 * thread_index(), 2);\n} else {\n bar_sync(1, 64);\n"
               " ld_shared_u32(dynamic_shared() + 4 * lane_index());\n bar_warp_sync();\n"
               " if (elect_one()) mbarrier_arrive(bar);\n}",
       kInit + "if (warp_index() == 0) {\n st_shared_u32(dynamic_shared() + 4 * thread_index(), 1);\n "
               "bar_arrive(1, 64);\n"
               " mbarrier_wait(bar, 0);\n st_shared_u32(dynamic_shared() + 4 * thread_index(), 2);\n} else "
               "{\n bar_sync(1, 64);\n"
               " ld_shared_u32(dynamic_shared() + 4 * lane_index());\n bar_warp_sync();\n"
               " if (elect_one()) mbarrier_arrive(bar);\n}",
       {"race: store of shared address", "race: load of shared address"}},
  });
}

TEST_CASE("named barriers") {
  check_cases({
      {"a barrier for part of a warp",
       "bar_sync(1, 48);",
       "bar_sync(1, 64);",
       {"barrier 1: threads = 48, must be a multiple of 32"}},
      {"a barrier that there is not",
       "bar_sync(16, 64);",
       "bar_sync(15, 64);",
       {"barrier = 16, must be 0..15"}},
      {"a barrier for other counts here and there",
       "if (warp_index() == 0) bar_sync(1, 64); else bar_sync(1, 96);",
       "bar_sync(1, 64);",
       {"barrier 1 for 96 threads here, for 64 where others arrived",
        "barrier 1 for 64 threads here, for 96 where others arrived"}},
      {"two warps that wait for each other at different barriers",
       "bar_sync(1 + warp_index(), 64);",
       "bar_arrive(2 - warp_index(), 64);\nbar_sync(1 + warp_index(), 64);",
       {"32 of 64 threads (thread 32 the first): waits in bar.sync 2 at body:1 (32 of 64 threads have "
        "arrived)"}},
      {"a lane that takes itself for the elected one",
       "if (elect_one()) st_shared_u32(dynamic_shared(), 1);\nif (lane_index() == 0 && thread_index() != 0) "
       "ld_shared_u32(dynamic_shared());",
       "if (warp_index() == 0 && elect_one()) st_shared_u32(dynamic_shared(), 1);\nbar_sync();\nif "
       "(lane_index() == 0) "
       "ld_shared_u32(dynamic_shared());",
       {"race: ", "which nothing has written"}},
  });
}
