// The training example's communicator of threads.
#include <doctest/doctest.h>
#include <examples/train/thread_communicator.h>

#include <functional>
#include <thread>
#include <vector>

using example::MeetingPoint;
using example::ThreadCommunicator;
using fa2::Transfer;

namespace {

/// Calls body(communicator) on a thread per rank.
void run_on(int ranks, const std::function<void(ThreadCommunicator&)>& body) {
  MeetingPoint meeting(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(meeting, rank);
      body(communicator);
    });
  }
}

}  // namespace

TEST_CASE("ranks that are threads: messages of a pair match in order, also those to the own rank") {
  std::vector<std::vector<int>> received(2, std::vector<int>(3));
  run_on(2, [&](ThreadCommunicator& own) {
    const int rank = own.rank(), other = 1 - rank;
    int sent[] = {10 * rank + 1, 10 * rank + 2, 10 * rank + 3};
    std::vector<int>& to = received[static_cast<std::size_t>(rank)];
    const Transfer group[] = {
        {Transfer::Kind::receive, other, &to[0], sizeof(int)},
        {Transfer::Kind::send, other, &sent[0], sizeof(int)},
        {Transfer::Kind::receive, rank, &to[1], sizeof(int)},
        {Transfer::Kind::receive, other, &to[2], sizeof(int)},
        {Transfer::Kind::send, rank, &sent[1], sizeof(int)},
        {Transfer::Kind::send, other, &sent[2], sizeof(int)},
    };
    own.wait(own.exchange(group, 6, nullptr));
  });
  CHECK(received[0] == std::vector{11, 2, 13});
  CHECK(received[1] == std::vector{1, 12, 3});
}

TEST_CASE("ranks that are threads: each gets what all have, in rank order") {
  std::vector<std::vector<int>> all(3, std::vector<int>(3));
  run_on(3, [&](ThreadCommunicator& own) {
    const int mine = 7 + own.rank();
    own.all_gather(&mine, sizeof mine, all[static_cast<std::size_t>(own.rank())].data());
  });
  for (const std::vector<int>& of_rank : all) CHECK(of_rank == std::vector{7, 8, 9});
}

TEST_CASE("ranks that are threads: a message of another size is an error") {
  int errors = 0;
  run_on(2, [&](ThreadCommunicator& own) {
    int value[2] = {};
    const bool sends = own.rank() == 0;
    const Transfer transfer = {sends ? Transfer::Kind::send : Transfer::Kind::receive, 1 - own.rank(), value,
                               sends ? sizeof value : sizeof value[0]};
    if (sends) return static_cast<void>(own.exchange(&transfer, 1, nullptr));
    try {
      own.exchange(&transfer, 1, nullptr);
    } catch (const fa2::CommunicationError& error) {
      errors += error.rank() == 1 ? 1 : 0;
    }
  });
  CHECK(errors == 1);
}
