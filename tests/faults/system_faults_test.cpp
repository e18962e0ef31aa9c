// Failing system calls: every call of every operation fails in every way.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "campaign.h"
#include "subject.h"
#include "system_calls.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

constexpr int kForever = 1 << 30;
constexpr int kStorm = 25;  ///< interruptions one after the other

/// One way in which a call can fail.
struct Way {
  std::string name;
  Effect effect;
  int error;
  int calls;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const int error : {EIO, ENOSPC, EACCES, EMFILE, ENOLCK, ESTALE}) {
    const std::string name = std::generic_category().message(error);
    all.push_back({name + ", once", Effect::error, error, 1});
    all.push_back({name + ", from then on", Effect::error, error, kForever});
  }
  all.push_back({"interrupted, once", Effect::error, EINTR, 1});
  all.push_back({"interrupted, 25 times", Effect::error, EINTR, kStorm});
  all.push_back({"half of the bytes, once", Effect::cut, 0, 1});
  all.push_back({"half of the bytes, from then on", Effect::cut, 0, kForever});
  all.push_back({"end of file, once", Effect::end, 0, 1});
  return all;
}

/// Runs the operation under the fault, and judges the folder without it.
Verdict use_failing(const Subject& subject, const Operation& operation, const Way& way, int first) {
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  const ScopedClock clock({.is_virtual = true});  // waiting for a lock takes no time
  Verdict verdict;
  std::string affected;
  {
    const ScopedSystemFault fault({way.effect, way.error, first, way.calls});
    verdict = operation.run(root);
    affected = fault.affected();
  }
  if (affected.empty()) return {Outcome::none, ""};
  describe(fmt::format("{}: {}: call {}: {}: {}", subject.name, operation.name, first, way.name,
                       affected.substr(0, 200)));
  if (verdict.outcome == Outcome::healed && operation.is_stored && !operation.is_stored(root))
    return wrong("not stored, and no warning says so");
  const bool may_leave = affected.find("unlink") != std::string::npos;
  if (!may_leave) verdict = worse(verdict, without_leftovers(root));
  return worse(verdict, subject.judge(root, true));
}

}  // namespace

TEST_CASE("system calls that fail") {
  const std::vector<Way> all_ways = ways();
  for (const Subject& subject : subjects()) {
    for (const Operation& operation : subject.operations) {
      const std::uint64_t calls = count_calls(subject, operation);
      const std::string kind = "calls of " + operation.name;
      inject(kind, every(calls * all_ways.size(), 3), [&](std::uint64_t seed) {
        describe(fmt::format("{} of {} calls", kind, calls));
        return use_failing(subject, operation, all_ways[seed % all_ways.size()],
                           static_cast<int>(seed / all_ways.size()));
      });
    }
  }
}
