// What ranks tell each other before they make a plan.
#include <doctest/doctest.h>
#include <parallel/agreement.h>
#include <parallel/thread_group.h>

#include <chrono>
#include <functional>
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

/// Returns the violations of an InvalidRequest.
std::vector<std::string> violations_in(const std::function<void()>& body) {
  std::vector<std::string> found;
  try {
    body();
  } catch (const InvalidRequest& error) {
    for (const Violation& violation : error.violations()) found.push_back(to_string(violation));
  }
  return found;
}

TEST_CASE("a rank that says something else is named on every rank") {
  ThreadGroup(4, {30s, false, 5}).run([](Communicator& own) {
    require_same(own, {{"problem", "f16 d128"}, {"layout", "8 tokens"}});
    const std::string problem = own.rank() == 2 ? "f16 d64" : "f16 d128",
                      layout = own.rank() == 3 ? "9 tokens" : "8 tokens";
    CHECK(violations_in([&] {
            require_same(own, {{"problem", problem}, {"layout", layout}});
          }) ==
          std::vector<std::string>{R"(problem of rank 2 = "f16 d64", must equal rank 0's, "f16 d128")",
                                   R"(layout of rank 3 = "9 tokens", must equal rank 0's, "8 tokens")"});
  });
}

TEST_CASE("what is wrong with the request of one rank is thrown there, and named on the others") {
  ThreadGroup(2, {30s, false, 5}).run([](Communicator& own) {
    std::vector<Violation> found;
    if (own.rank() == 1) found = {{"batch", "0", "must be at least 1"}};
    CHECK(violations_in([&] {
            require_same(own, {{"problem", "f16"}}, found);
          }) == std::vector<std::string>{own.rank() == 1
                                             ? "batch = 0, must be at least 1"
                                             : "request of rank 1 = \"batch = 0, must be at least 1\", "
                                               "must break no rule"});
  });
}

TEST_CASE("a rank that makes no plan throws its own error, and the others one that names it") {
  ThreadGroup(3, {30s, false, 5}).run([](Communicator& own) {
    int made = 0;
    make_together(own, [&] { ++made; });
    CHECK(made == 1);
    const auto fail = [&] {
      make_together(own, [&] {
        if (own.rank() == 1) throw Unavailable("no compiler");
      });
    };
    if (own.rank() == 1) {
      CHECK_THROWS_AS(fail(), Unavailable);
    } else {
      CHECK_THROWS_WITH_AS(fail(), "rank 1 has made no plan: no compiler", CommunicationError);
    }
  });
}

}  // namespace
