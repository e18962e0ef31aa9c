// What ranks tell each other before they make a plan.
#include <doctest/doctest.h>
#include <parallel/agreement.h>
#include <parallel/thread_group.h>

#include <chrono>
#include <string>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;

TEST_CASE("all_gather puts the parts of all ranks in order") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    ThreadGroup(ranks, {30s, ranks % 2 == 0, 7}).run([&](Communicator& own) {
      const int mine = 10 + own.rank();
      std::vector<int> all(ranks);
      own.all_gather(&mine, sizeof mine, all.data());
      for (int rank = 0; rank < ranks; ++rank) CHECK(all[rank] == 10 + rank);
      own.all_gather(nullptr, 0, nullptr);
    });
  }
}

TEST_CASE("texts of any length are gathered and broadcast") {
  ThreadGroup(3, {30s, true, 3}).run([](Communicator& own) {
    const std::string mine(static_cast<std::size_t>(own.rank()) * 4, 'x');
    CHECK(gather_texts(own, mine) == std::vector<std::string>{"", "xxxx", "xxxxxxxx"});
    CHECK(broadcast_text(own, "of rank " + std::to_string(own.rank())) == "of rank 0");
    CHECK(broadcast_text(own, "of rank " + std::to_string(own.rank()), 2) == "of rank 2");
  });
}

TEST_CASE("a rank whose text differs is named on every rank") {
  ThreadGroup(4, {30s, false, 5}).run([](Communicator& own) {
    require_same(own, "problem", "f16 d128");
    try {
      require_same(own, "problem", own.rank() == 2 ? "f16 d64" : "f16 d128");
      FAIL("expected an error");
    } catch (const InvalidRequest& error) {
      REQUIRE(error.violations().size() == 1);
      CHECK(to_string(error.violations()[0]) ==
            "problem of rank 2 = \"f16 d64\", must equal rank 0's, \"f16 d128\"");
    }
  });
}

}  // namespace
