// NCCL's communicators on a fake NCCL, whose ranks are threads and whose memory is the host's.
#include <doctest/doctest.h>
#include <fa2/nccl_communicator.h>
#include <parallel/agreement.h>
#include <parallel/nccl_communicator.h>
#include <runtime/nccl.h>
#include <runtime/shared_library.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;
using Owner = NcclCommunicator::Owner;
using Kind = Transfer::Kind;

constexpr NcclOptions kPatient{30s, 0}, kSoon{50ms, 0};

/// Sets an environment variable for its lifetime; null: unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

const Nccl& fake() {
  static const Nccl opened(SharedLibrary::open_first({FA2_FAKE_NCCL}, "the fake", ""));
  return opened;
}

int count(const char* what) {
  return reinterpret_cast<int (*)(const char*)>(fake().library.find("fake_nccl_count"))(what);
}

NcclId new_id() {
  NcclUniqueId unique{};
  REQUIRE(fake().get_unique_id(&unique) == kNcclSuccess);
  NcclId id;
  std::copy(std::begin(unique.bytes), std::end(unique.bytes), id.begin());
  return id;
}

/// Calls body(rank) on a thread per rank, and rethrows the exception of the lowest rank.
void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void with_own(int ranks, const std::function<void(Communicator&)>& body,
              const NcclOptions& options = kPatient) {
  const NcclId id = new_id();
  on_threads(ranks, [&](int rank) { body(*NcclCommunicator::init(fake(), id, ranks, rank, options)); });
}

/// Returns the caller's rank of a communicator that belongs to the test.
ncclComm* raw(bool blocking, const NcclId& id = new_id(), int ranks = 1, int rank = 0) {
  NcclUniqueId unique{};
  std::copy(id.begin(), id.end(), unique.bytes);
  NcclConfig config;
  config.blocking = blocking;
  ncclComm* comm = nullptr;
  fake().comm_init_rank_config(&comm, ranks, unique, rank, &config);
  REQUIRE(comm != nullptr);
  return comm;
}

/// Sends to itself.
std::uint64_t exchange_one(Communicator& own) {
  static int sent = 7, received = 0;
  const Transfer group[] = {{Kind::send, own.rank(), &sent, sizeof sent},
                            {Kind::receive, own.rank(), &received, sizeof received}};
  return own.exchange(group, 2, nullptr);
}

void check_ring(Communicator& own) {
  const int size = own.size(), next = (own.rank() + 1) % size, previous = (own.rank() + size - 1) % size;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> sent{own.rank(), round}, received(2);
    const Transfer group[] = {
        {Kind::send, next, sent.data(), 8},
        {Kind::receive, previous, received.data(), 8},
        {Kind::send, next, nullptr, 0}};  // only the sender lists it, and nothing is sent
    const std::uint64_t number = own.exchange(group, 3, nullptr);
    CHECK(number == static_cast<std::uint64_t>(round));
    own.wait(number);
    own.check();
    CHECK(received == std::vector{previous, round});
  }
}

std::string message_of(const std::function<void()>& call, int result) {
  try {
    call();
  } catch (const CommunicationError& error) {
    CHECK(error.result() == result);
    return error.what();
  }
  FAIL("expected an error");
  return "";
}

TEST_CASE(
    "NCCL: a ring of own communicators, whatever NCCL is slow at or reorders, and each is destroyed once") {
  for (const char* words : {"", "in_progress=3", "reorder", "reorder,in_progress=1"}) {
    const Variable setting("FAKE_NCCL", words);
    for (const int ranks : {1, 2, 5, 8}) {
      const int aborts = count("aborts"), destroys = count("destroys");
      with_own(ranks, check_ring);
      CHECK(count("destroys") == destroys + ranks);
      CHECK(count("aborts") == aborts);
      CHECK(count("alive") == 0);
    }
  }
}

TEST_CASE("NCCL: all_gather of host memory, and texts by it") {
  with_own(4, [](Communicator& own) {
    CHECK(gather_texts(own, std::string(own.rank(), 'x')) == std::vector<std::string>{"", "x", "xx", "xxx"});
    CHECK(broadcast_text(own, std::to_string(own.rank()), 3) == "3");
  });
}

TEST_CASE(
    "NCCL: a split communicator has its parent's ranks, and the blocks that it may use, and is destroyed "
    "alone") {
  for (const bool blocking : {true, false}) {
    const NcclId id = new_id();
    const int destroys = count("destroys");
    on_threads(3, [&](int rank) {
      ncclComm* const parent = raw(blocking, id, 3, rank);
      {
        const auto own = NcclCommunicator::split(fake(), parent, {30s, 4});
        CHECK(own->size() == 3);
        CHECK(own->rank() == rank);
        CHECK(count("max_blocks") == 4);
        check_ring(*own);
      }
      fake().comm_destroy(parent);
    });
    CHECK(count("destroys") == destroys + 6);
    const Variable setting("FAKE_NCCL", "fail=ncclCommSplit:5");
    ncclComm* const comm = raw(blocking);
    message_of([&] { NcclCommunicator::split(fake(), comm, kSoon); }, 5);
    CHECK(fake().comm_destroy(comm) == kNcclSuccess);
  }
}

TEST_CASE("NCCL: a borrowed communicator is neither destroyed nor aborted") {
  for (const bool blocking : {true, false}) {
    ncclComm* const comm = raw(blocking);
    const int destroys = count("destroys"), aborts = count("aborts");
    {
      NcclCommunicator borrowed(fake(), comm, Owner::caller, NcclOptions{30s});
      check_ring(borrowed);
      const Variable setting("FAKE_NCCL", "async=6");
      message_of([&] { borrowed.check(); }, 6);
    }
    CHECK(count("destroys") == destroys);
    CHECK(count("aborts") == aborts);
    CHECK(fake().comm_destroy(comm) == kNcclSuccess);
  }
}

TEST_CASE(
    "NCCL: errors of every call name rank, function and result, and abort an own communicator exactly once") {
  for (const char* function :
       {"ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd", "ncclCommGetAsyncError"}) {
    const auto own = NcclCommunicator::init(fake(), new_id(), 1, 0, kPatient);
    const int aborts = count("aborts"), destroys = count("destroys");
    {
      const Variable setting("FAKE_NCCL", ("in_progress=1,fail=" + std::string(function) + ":3").c_str());
      const std::string message = message_of([&] { exchange_one(*own); }, 3);
      INFO(message);
      CHECK(message.starts_with("rank 0: "));
      CHECK(message.find(": a fake error (3): details of the fake") != std::string::npos);
      if (std::string(function) != "ncclCommGetAsyncError")
        CHECK(message.find(function) != std::string::npos);
    }
    CHECK(count("aborts") == aborts + 1);
    message_of([&] { exchange_one(*own); }, 3);  // and so do later calls
    message_of([&] { own->check(); }, 3);
    int all = 0;
    message_of([&] { own->all_gather(&aborts, sizeof aborts, &all); }, 3);
    CHECK(count("aborts") == aborts + 1);
    CHECK(count("destroys") == destroys);
  }
  CHECK(count("alive") == 0);
}

TEST_CASE("NCCL: an asynchronous error is what check() throws") {
  const int aborts = count("aborts");
  {
    const auto own = NcclCommunicator::init(fake(), new_id(), 1, 0, kPatient);
    own->check();
    const Variable setting("FAKE_NCCL", "async=6");
    CHECK(message_of([&] { own->check(); }, 6) ==
          "rank 0: ncclCommGetAsyncError: a fake error (6): details of the fake");
  }
  CHECK(count("aborts") == aborts + 1);
}

TEST_CASE(
    "NCCL: what never completes is a timeout; own communicators are aborted once, borrowed ones never") {
  const Variable setting("FAKE_NCCL", "stall");
  int aborts = count("aborts");
  {
    const auto own = NcclCommunicator::init(fake(), new_id(), 1, 0, kSoon);
    const std::string message = message_of([&] { exchange_one(*own); }, 0);
    CHECK(message ==
          "rank 0: ncclGroupEnd: no answer within 50 ms: a rank does not make the same calls, or has ended");
  }
  CHECK(count("aborts") == ++aborts);
  ncclComm* const comm = raw(false);
  {
    NcclCommunicator borrowed(fake(), comm, Owner::caller, NcclOptions{50ms});
    message_of([&] { exchange_one(borrowed); }, 0);
    message_of([&] { borrowed.check(); }, 0);
  }
  CHECK(count("aborts") == aborts);
  fake().comm_abort(comm);
}

TEST_CASE(
    "NCCL: all_gather that never completes is a timeout too, also on a borrowed communicator, which stays as "
    "it is") {
  const NcclId id = new_id();
  const int aborts = count("aborts");
  std::vector<ncclComm*> raws(2);
  on_threads(2, [&](int rank) { raws[rank] = raw(false, id, 2, rank); });
  {
    const Variable setting("FAKE_NCCL", "stall");
    on_threads(2, [&](int rank) {
      NcclCommunicator borrowed(fake(), raws[rank], Owner::caller, NcclOptions{50ms});
      std::vector<int> all(2);
      CHECK(message_of([&] { borrowed.all_gather(&rank, sizeof rank, all.data()); }, 0)
                .find("no answer within 50 ms") != std::string::npos);
    });
  }
  CHECK(count("aborts") == aborts);
  for (ncclComm* const comm : raws) fake().comm_abort(comm);
}

TEST_CASE("NCCL: ranks that do not come are a timeout of init, with nothing left behind") {
  const int aborts = count("aborts");
  message_of([] { NcclCommunicator::init(fake(), new_id(), 2, 0, kSoon); }, 0);
  CHECK(count("aborts") == aborts + 1);
  CHECK(count("alive") == 0);
  const Variable setting("FAKE_NCCL", "fail=ncclCommInitRankConfig:2");
  CHECK(message_of([] { NcclCommunicator::init(fake(), new_id(), 2, 1, kSoon); }, 2) ==
        "rank 1: ncclCommInitRankConfig: a fake error (2)");
  CHECK_THROWS_AS(NcclCommunicator::init(fake(), new_id(), 2, 2, kSoon), InvalidRequest);
}

TEST_CASE("NCCL: unequal numbers of bytes fail on both ranks") {
  const NcclId id = new_id();
  on_threads(2, [&](int rank) {
    const auto own = NcclCommunicator::init(fake(), id, 2, rank, kPatient);
    int data[2] = {};
    const Transfer half{rank == 0 ? Kind::send : Kind::receive, 1 - rank, data, rank == 0 ? 4u : 8u};
    message_of([&] { own->exchange(&half, 1, nullptr); }, 4);
  });
}

TEST_CASE("NCCL: wrong transfers are refused before anything is enqueued") {
  const auto own = NcclCommunicator::init(fake(), new_id(), 1, 0, kPatient);
  const Transfer wrong{Kind::send, 1, nullptr, 4};
  CHECK_THROWS_AS(own->exchange(&wrong, 1, nullptr), InvalidRequest);
  check_ring(*own);
}

std::string unavailable(const std::function<void()>& call) {
  try {
    call();
  } catch (const Unavailable& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("NCCL: FA2_NCCL alone is opened; without it the library that is loaded, then given directories") {
  fake();
  {
    const Variable path("FA2_NCCL", "/nowhere/libnccl.so.2");
    const std::string message = unavailable([] { open_nccl({"/given"}); });
    CHECK(message.find("\n  /nowhere/libnccl.so.2: ") != std::string::npos);
    CHECK(message.find("/given") == std::string::npos);
    CHECK(message.find("pip install nvidia-nccl-cu13") != std::string::npos);
  }
  const Variable path("FA2_NCCL", nullptr);
  CHECK(open_nccl({"/given"}).path() == FA2_FAKE_NCCL);
  CHECK(!SharedLibrary::find_loaded("libfa2-missing.so.1"));
}

TEST_CASE("NCCL: libraries that are too old, or lack a function, are refused by name") {
  const auto open = [](const char* path) { Nccl(SharedLibrary::open_first({path}, "the fake", "")); };
  {
    const Variable setting("FAKE_NCCL", "version=21703");
    CHECK(unavailable([&] { open(FA2_FAKE_NCCL); }) == FA2_FAKE_NCCL
          " has version 21703, must be at least 21800 (2.18): install a newer NCCL");
  }
  const std::string message = unavailable([&] { open(FA2_NO_FUNCTIONS); });
  CHECK(message.starts_with(FA2_NO_FUNCTIONS " has no nccl"));
}

TEST_CASE("NCCL: the public functions use the library of the process") {
  const Variable path("FA2_NCCL", FA2_FAKE_NCCL);
  set_nccl_search({"/given"});
  const NcclId id = make_nccl_id();
  on_threads(2, [&](int rank) {
    const auto own = init_nccl(id, 2, rank, kPatient);
    check_ring(*own);
  });
  ncclComm* const comm = raw(true);
  check_ring(*borrow_nccl(comm, kPatient));
  check_ring(*split_nccl(comm, kPatient));
  CHECK_THROWS_AS(borrow_nccl(nullptr), InvalidRequest);
  CHECK_THROWS_AS(split_nccl(nullptr), InvalidRequest);
  fake().comm_destroy(comm);
}

}  // namespace
