// Damaged files: results stay right, and the folder becomes usable again or a message says why not.
#include "data_faults.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tests/support/temporary_directory.h>

#include "campaign.h"
#include "subject.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

/// Damages a file, runs an operation, and judges the folder.
Verdict use_damaged(const Subject& subject, const std::string& kind, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  subject.make(root);
  const std::string what = damage(kind, subject, root, random);
  const Operation& operation = subject.operations[below(random, subject.operations.size())];
  describe(fmt::format("{}: {}, then {}", subject.name, what, operation.name));
  const Verdict verdict = operation.run(root);
  if (verdict.outcome == Outcome::wrong) return verdict;
  return worse(subject.judge(root, false), without_leftovers(root));
}

}  // namespace

TEST_CASE("data faults") {
  for (const Subject& subject : subjects()) {
    for (const std::string& kind : kinds_of_damage()) {
      inject(kind, random_seeds(200, 1000),
             [&](std::uint64_t seed) { return use_damaged(subject, kind, seed); });
    }
  }
}
