// Counter slots: launches use them in rotation, and each graph node holds one. On the interpreter, whose
// memory is the host's.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/launch_counters.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace fa2;

namespace {

using Word = std::shared_ptr<std::uint32_t>;

bool contains(const MemoryRange& memory, const std::uint32_t* word) {
  const auto* const at = reinterpret_cast<const std::byte*>(word);
  return at >= memory.begin && at + sizeof *word <= memory.begin + memory.bytes;
}

}  // namespace

TEST_CASE("launch counters: all slots are taken, none is left, and a returned slot is taken again") {
  const ScopedContext current(kInterpreterDevice);
  LaunchCounters counters({.for_graphs = 3});
  std::vector<Word> lent;
  for (int i = 0; i < 3; ++i) lent.push_back(counters.lend());
  for (const Word& word : lent) {
    CHECK(*word == 0);
    CHECK(contains(counters.memory(), word.get()));
  }
  CHECK(std::set<Word>(lent.begin(), lent.end()).size() == 3);
  CHECK_THROWS_WITH_AS(counters.lend(), doctest::Contains("CUDA graphs hold all 3 launch counters"),
                       Unavailable);
  CHECK_THROWS_WITH_AS(counters.lend(), doctest::Contains("AttentionArgs::workspace"), Unavailable);

  std::uint32_t* const second = lent[1].get();
  Word copy = lent[1];
  lent[1] = nullptr;
  CHECK_THROWS_AS(counters.lend(), Unavailable);
  copy = nullptr;
  lent[1] = counters.lend();
  CHECK(lent[1].get() == second);
  CHECK_THROWS_AS(counters.lend(), Unavailable);
}

TEST_CASE("launch counters: launches rotate, without the slots that graphs hold") {
  const ScopedContext current(kInterpreterDevice);
  LaunchCounters counters({.for_graphs = 2});
  const Word lent[] = {counters.lend(), counters.lend()};
  std::set<const std::uint32_t*> in_turn;
  const std::uint32_t* const first = counters.take({}, nullptr);
  for (const std::uint32_t* word = first; in_turn.insert(word).second; word = counters.take({}, nullptr)) {
    REQUIRE(*word == 0);
    REQUIRE(contains(counters.memory(), word));
  }
  CHECK(in_turn.size() >= 10000);
  for (const Word& word : lent) CHECK_FALSE(in_turn.contains(word.get()));
  CHECK((in_turn.size() + std::size(lent)) * sizeof(std::uint32_t) == counters.memory().bytes);
}

TEST_CASE("launch counters: a slot is returned after the counters are destroyed") {
  const ScopedContext current(kInterpreterDevice);
  auto counters = std::make_unique<LaunchCounters>(CounterSizes{.for_graphs = 1});
  const Word lent = counters->lend();
  counters = nullptr;
  CHECK(lent.use_count() == 1);
}

TEST_CASE("launch counters: slots are returned on any thread while others are taken") {
  const ScopedContext current(kInterpreterDevice);
  constexpr std::size_t kThreads = 8, kRounds = 500;
  LaunchCounters counters({.for_graphs = kThreads});
  std::vector<std::string> failures(kThreads);
  for_each_index(kThreads, static_cast<int>(kThreads), [&](std::size_t i) {
    try {
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        const Word word = counters.lend();  // one per thread: there are enough
        if (++*word != 1) failures[i] = "a word that another thread has, or did not leave at 0";
        *word = 0;
      }
    } catch (const Unavailable& error) {
      failures[i] = error.what();
    }
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}
