// Clocks that jump by years, and time stamps of files from another time.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <sys/file.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include "campaign.h"
#include "subject.h"
#include "system_calls.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

/// Returns a time between seconds and 30 years, into the past or the future.
std::int64_t some_jump(Random& random) {
  const std::int64_t spans[] = {
      1, 60, 60 * 60, 25 * 60 * 60, 366LL * 24 * 60 * 60, 30LL * 366 * 24 * 60 * 60};
  const auto seconds =
      static_cast<std::int64_t>(below(random, static_cast<std::size_t>(spans[below(random, 6)]) + 1));
  return random() % 2 == 0 ? seconds : -seconds;
}

/// Jumps between two operations, over files from other times.
Verdict jump(const Subject& subject, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  for (const fs::path& file : subject.files(root)) age(file, some_jump(random));
  for (int i = 0; i < 2; ++i) {
    const FakeClock clock{
        .wall_seconds = some_jump(random), .is_virtual = true, .jump_seconds = some_jump(random)};
    const Operation& operation = subject.operations[below(random, subject.operations.size())];
    describe(fmt::format("{}: {} at {:+} s", subject.name, operation.name, clock.wall_seconds));
    const ScopedClock clocks(clock);
    const Verdict verdict = operation.run(root);
    if (verdict.outcome != Outcome::healed) return wrong("the time of day decides: " + verdict.why);
  }
  return worse(subject.judge(root, true), without_leftovers(root));
}

/// Waits for a lock that never becomes free, while the time of day jumps.
Verdict wait_for_lock(const Subject& subject, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  const fs::path path = subject.lock(root);
  fa2::make_private_directories(path.parent_path());
  const fa2::FileDescriptor held(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(held.get(), LOCK_EX) != 0) return wrong("cannot lock");
  const ScopedClock clocks({.is_virtual = true, .jump_seconds = some_jump(random)});
  const Operation& operation = subject.operations[below(random, subject.operations.size())];
  describe(subject.name + ": " + operation.name + " while another process holds the lock");
  const Verdict verdict = operation.run(root);
  return worse(verdict, subject.judge(root, true));
}

}  // namespace

TEST_CASE("clocks that jump") {
  for (const Subject& subject : subjects()) {
    inject("clock jumps", random_seeds(60, 1000), [&](std::uint64_t seed) { return jump(subject, seed); });
    if (!subject.lock) continue;
    inject("lock never free", random_seeds(20, 200),
           [&](std::uint64_t seed) { return wait_for_lock(subject, seed); });
  }
}
