// Ranks that are threads: what arrives, and each rule of a group broken once.
#include <doctest/doctest.h>
#include <fa2/communicator.h>
#include <parallel/thread_group.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;
using Kind = Transfer::Kind;

Transfer send(int peer, std::vector<int>& data) {
  return {Kind::send, peer, data.data(), data.size() * sizeof(int)};
}
Transfer receive(int peer, std::vector<int>& data) {
  return {Kind::receive, peer, data.data(), data.size() * sizeof(int)};
}
std::uint64_t exchange(Communicator& ranks, std::vector<Transfer> group) {
  return ranks.exchange(group.data(), group.size(), nullptr);
}

/// Returns the message with which a group fails; empty if it does not.
std::string failure(int ranks, const ThreadGroupOptions& options,
                    const std::function<void(Communicator&)>& body) {
  ThreadGroup group(ranks, options);
  try {
    group.run(body);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

constexpr ThreadGroupOptions kSoon{50ms, false, 0, {}};

TEST_CASE("threads exchange in every order and with every delay: each rank gets what its peers sent") {
  for (const bool late : {false, true}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      ThreadGroup group(ranks, {30s, late, static_cast<std::uint64_t>(ranks)});
      group.run([&](Communicator& own) {
        std::mt19937 random(own.rank());
        for (int round = 0; round < 3; ++round) {
          std::vector<std::vector<int>> sent(ranks, std::vector<int>(5)), received = sent;
          std::vector<Transfer> transfers;
          for (int peer = 0; peer < ranks; ++peer) {
            std::iota(sent[peer].begin(), sent[peer].end(), 1000 * round + 100 * own.rank() + 10 * peer);
            transfers.push_back(send(peer, sent[peer]));
            transfers.push_back(receive(peer, received[peer]));
          }
          std::shuffle(transfers.begin(), transfers.end(), random);
          CHECK(own.size() == ranks);
          const std::uint64_t number = exchange(own, transfers);
          CHECK(number == static_cast<std::uint64_t>(round));
          own.wait(number);
          own.check();
          for (int peer = 0; peer < ranks; ++peer)
            CHECK(received[peer][3] == 1000 * round + 100 * peer + 10 * own.rank() + 3);
        }
      });
    }
  }
}

TEST_CASE("messages of a pair match in order, over several exchanges, and one wait may cover them") {
  ThreadGroup group(2, {30s, true, 1});
  group.run([](Communicator& own) {
    std::vector<int> a{1}, b{2, 3}, c(1), d(2);
    if (own.rank() == 0) {
      exchange(own, {send(1, a)});
      own.wait(exchange(own, {send(1, b)}));
    } else {
      own.wait(exchange(own, {receive(0, c), receive(0, d)}));
      CHECK(c == std::vector{1});
      CHECK(d == std::vector{2, 3});
    }
  });
}

TEST_CASE(
    "late: received memory is NaN until wait(); early: it may be read as soon as both ranks have come") {
  for (const bool late : {true, false}) {
    ThreadGroup group(1, {30s, late, 0});
    std::vector<int> sent{7}, received{0};
    Communicator& own = group.communicator(0);
    const std::uint64_t number = exchange(own, {receive(0, received), send(0, sent)});
    CHECK(received[0] == (late ? -1 : 7));
    own.wait(number);
    CHECK(received[0] == 7);
    group.require_settled();
  }
}

TEST_CASE("unequal numbers of bytes fail on both ranks, and are named") {
  std::array<std::string, 2> messages;
  const std::string first = failure(2, kSoon, [&](Communicator& own) {
    std::vector<int> data(own.rank() == 0 ? 2 : 3);
    try {
      own.wait(exchange(own, {own.rank() == 0 ? send(1, data) : receive(0, data)}));
    } catch (const CommunicationError& error) {
      messages[own.rank()] = error.what();
      CHECK(error.rank() == own.rank());
      CHECK_THROWS_AS(own.check(), CommunicationError);
      throw;
    }
  });
  CHECK(!first.empty());
  for (const std::string& message : messages)
    CHECK(contains(message, "rank 0 sends 8 bytes to rank 1 (exchange 0), which receives 12 (exchange 0)"));
}

TEST_CASE("a rank that does not come is a timeout that says who waits for whom") {
  std::mutex mutex;
  std::condition_variable ended;
  int waiting = 2;
  const std::string message = failure(3, kSoon, [&](Communicator& own) {
    std::vector<int> data(4);
    if (own.rank() == 2) {  // busy with something else
      std::unique_lock lock(mutex);
      ended.wait(lock, [&] { return waiting == 0; });
      return;
    }
    try {
      own.wait(exchange(own, {own.rank() == 0 ? receive(1, data) : receive(2, data)}));
    } catch (const CommunicationError&) {
      const std::lock_guard lock(mutex);
      --waiting;
      ended.notify_all();
      throw;
    }
  });
  CHECK(contains(message, "no answer within 50 ms"));
  CHECK(contains(message, "rank 1 waits for rank 2 to send 16 bytes (exchange 0 of rank 1)"));
  CHECK(contains(message, "rank 2 has enqueued 0 exchanges, and does not wait"));
}

TEST_CASE("a rank that has ended, or failed, ends the wait of the others at once") {
  constexpr ThreadGroupOptions kNever{1h, false, 0, {}};
  const auto lonely = [](Communicator& own) {
    std::vector<int> data(4);
    if (own.rank() == 0) own.wait(exchange(own, {send(1, data)}));
  };
  const std::string message = failure(2, kNever, lonely);
  CHECK(contains(message, "a rank has ended too early"));
  CHECK(contains(message, "rank 0 waits for rank 1 to receive 16 bytes"));
  CHECK(contains(message, "rank 1 has ended after 0 exchanges"));

  ThreadGroup group(2, kNever);
  CHECK_THROWS_WITH_AS(group.run([&](Communicator& own) {
    if (own.rank() == 1) throw std::runtime_error("no memory");
    lonely(own);
  }),
                       "no memory", std::runtime_error);
  CHECK_THROWS_WITH_AS(group.communicator(0).check(), "rank 0: rank 1 ended with an error: no memory",
                       CommunicationError);
}

TEST_CASE("a wait for an exchange that does not exist, or a second one, is refused") {
  ThreadGroup group(1);
  Communicator& own = group.communicator(0);
  CHECK_THROWS_AS(own.wait(0), InvalidRequest);
  const std::uint64_t number = exchange(own, {});
  own.wait(number);
  CHECK_THROWS_AS(own.wait(number), InvalidRequest);
  own.check();
}

TEST_CASE("a transfer to nobody, or without memory, is refused with all others, and nothing is enqueued") {
  ThreadGroup group(2);
  Communicator& own = group.communicator(0);
  try {
    exchange(own, {{Kind::send, 2, nullptr, 4}, {Kind::receive, -1, nullptr, 0}});
    FAIL("expected an error");
  } catch (const InvalidRequest& error) {
    CHECK(error.violations().size() == 3);
    CHECK(to_string(error.violations()[0]) == "transfers[0].peer = 2, must be in 0..1");
    CHECK(to_string(error.violations()[1]) == "transfers[0].data = null, must be the memory of 4 bytes");
  }
  group.require_settled();
}

TEST_CASE(
    "memory that is touched in flight is noticed: what is sent always, what is received if it arrives late") {
  for (const bool late : {false, true}) {
    const std::string sent = failure(1, {30s, late, 0}, [](Communicator& own) {
      std::vector<int> a{1}, b{2};
      const std::uint64_t number = exchange(own, {send(0, a), receive(0, b)});
      a[0] = 5;
      own.wait(number);
    });
    CHECK(contains(sent, "rank 0 wrote to 4 bytes that it was sending to rank 0 (exchange 0)"));
  }
  const std::string received = failure(1, {30s, true, 0}, [](Communicator& own) {
    std::vector<int> a{1}, b{2};
    const std::uint64_t number = exchange(own, {send(0, a), receive(0, b)});
    b[0] = 5;
    own.wait(number);
  });
  CHECK(contains(received, "rank 0 wrote to 4 bytes that it was receiving from rank 0 (exchange 0)"));
}

TEST_CASE(
    "ranks of one device exchange its memory in order of their streams, here the interpreter's, which has "
    "none") {
  const ThreadGroupOptions options{30s, false, 3, kInterpreterDevice};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    ThreadGroup(ranks, options).run([&](Communicator& own) {
      const int next = (own.rank() + 1) % ranks, previous = (own.rank() + ranks - 1) % ranks;
      for (int round = 0; round < 3; ++round) {
        std::vector<int> a{own.rank()}, b{round, 8}, c(1), d(2);
        const std::uint64_t number =
            exchange(own, {receive(previous, c), send(next, a), send(next, b), receive(previous, d)});
        CHECK(number == static_cast<std::uint64_t>(round));
        own.wait(number);
        own.check();
        CHECK(c == std::vector{previous});
        CHECK(d == std::vector{round, 8});
      }
      std::vector<int> all(ranks);
      const int mine = own.rank();
      own.all_gather(&mine, sizeof mine, all.data());
      CHECK(all.back() == ranks - 1);
    });
  }
  const std::string message = failure(2, options, [](Communicator& own) {
    std::vector<int> data(own.rank() == 0 ? 2 : 3);
    exchange(own, {own.rank() == 0 ? send(1, data) : receive(0, data)});
  });
  CHECK(contains(message, "rank 0 sends 8 bytes, and rank 1 receives 12, must be equal"));
  CHECK_THROWS_AS(exchange(ThreadGroup(1, options).communicator(0), {{Kind::send, 1, nullptr, 0}}),
                  InvalidRequest);
}

TEST_CASE("messages without a partner, and exchanges without a wait, are left over") {
  std::vector<int> kept(4);
  const std::string message = failure(2, kSoon, [&](Communicator& own) {
    if (own.rank() == 0) exchange(own, {send(1, kept)});
  });
  CHECK(contains(message, "rank 0 wants rank 1 to receive 16 bytes (exchange 0 of rank 0)"));
  CHECK(contains(message, "rank 0 has not waited for exchange 0"));
}

}  // namespace
