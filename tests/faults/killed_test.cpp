// Processes killed at any call and at any time: the folder stays usable, and what they leave is reaped.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "campaign.h"
#include "subject.h"
#include "system_calls.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

constexpr int kLoops = 1000;
constexpr std::time_t kTwoHours = 2 * 60 * 60;

/// Judges the folder as the killed process left it, then without its leftovers.
Verdict judge_after_kill(const Subject& subject, const fs::path& root) {
  const Verdict verdict = subject.judge(root, true);
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".tmp" || extension == ".lock") age(entry.path(), kTwoHours);
  }
  if (subject.reap) subject.reap(root);
  return worse(worse(verdict, without_leftovers(root, ".tmp")), without_leftovers(root, ".lock"));
}

Verdict kill_at_call(const Subject& subject, const Operation& operation, Effect effect, int call) {
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  describe(fmt::format("{}: {}: killed {} call {}", subject.name, operation.name,
                       effect == Effect::kill_before ? "before" : "after", call));
  const pid_t child = fork_child([&] {
    const ScopedSystemFault fault({effect, 0, call, 1});
    static_cast<void>(operation.run(root));
    return 0;
  });
  if (wait_for(child) == 0) return {Outcome::none, ""};
  return judge_after_kill(subject, root);
}

/// Kills a process that runs random operations.
Verdict kill_at_time(const Subject& subject, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  const pid_t child = fork_child([&] {
    for (int i = 0; i < kLoops; ++i)
      static_cast<void>(subject.operations[below(random, subject.operations.size())].run(root));
    return 0;
  });
  const std::chrono::microseconds pause(below(random, 6000));
  describe(fmt::format("{}: killed after {} us", subject.name, pause.count()));
  std::this_thread::sleep_for(pause);
  ::kill(child, SIGKILL);
  wait_for(child);
  return judge_after_kill(subject, root);
}

}  // namespace

TEST_CASE("killed at a system call") {
  for (const Subject& subject : subjects()) {
    for (const Operation& operation : subject.operations) {
      const std::uint64_t calls = count_calls(subject, operation);
      inject("killed at a call", every(2 * calls, 5), [&](std::uint64_t seed) {
        const Effect effect = seed % 2 == 0 ? Effect::kill_before : Effect::kill_after;
        return kill_at_call(subject, operation, effect, static_cast<int>(seed / 2));
      });
    }
  }
}

TEST_CASE("killed at any time") {
  for (const Subject& subject : subjects()) {
    inject("killed at any time", random_seeds(60, 500),
           [&](std::uint64_t seed) { return kill_at_time(subject, seed); });
  }
}
