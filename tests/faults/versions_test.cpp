// Several versions of fa2 in one directory: none removes or changes what another has written.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tests/support/temporary_directory.h>

#include <cstring>
#include <map>

#include "campaign.h"
#include "kernels.h"
#include "subject.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

/// Returns an entry of a later format: another version number, and contents that this version cannot read.
std::string later_entry(Random& random) {
  std::string entry = "FA2K";
  entry += static_cast<char>(2 + below(random, 200));
  entry += std::string(3, '\0');
  for (std::size_t bytes = 100 + below(random, 1000); bytes > 0; --bytes)
    entry += static_cast<char>(random());
  return entry;
}

/// Writes what other versions keep in the directory. Returns their files and contents.
std::map<fs::path, std::string> others(const fs::path& root, Random& random) {
  std::map<fs::path, std::string> files;
  const auto add = [&](const fs::path& below_root, const std::string& contents) {
    fa2::make_private_directories((root / below_root).parent_path());
    write_text(root / below_root, contents);
    files[root / below_root] = contents;
  };
  const std::string key = key_of("another version's");
  add(fs::path("v1") / "sm_80" / (key + ".fa2k"), "an older format");
  add(fs::path("v3") / "sm_80" / key.substr(0, 2) / (key + ".fa2k"), "a later format");
  add(fs::path("v3") / "sm_80" / key.substr(0, 2) / (key + ".1.00000001.tmp"), "");
  add(fs::path("v2") / "sm_80" / key.substr(0, 2) / (key + ".fa2k"), later_entry(random));
  add(fs::path("tuning") / "records.v9.jsonl", "{}\n");
  return files;
}

Verdict share(const Subject& subject, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  const fs::path root = directory / "root";
  const bool first = random() % 2 == 0;
  if (first) subject.make(root);
  const auto files = others(root, random);
  if (!first) subject.make(root);
  const Operation& operation = subject.operations[below(random, subject.operations.size())];
  describe(fmt::format("{}: {} among files of other versions", subject.name, operation.name));
  Verdict verdict = operation.run(root);
  if (verdict.outcome == Outcome::wrong) return verdict;
  if (subject.reap) subject.reap(root);
  verdict = subject.judge(root, true);
  for (const auto& [path, contents] : files) {
    if (read_text(path) != contents) return wrong("changed or removed " + path.native());
  }
  return verdict;
}

}  // namespace

TEST_CASE("versions that share a directory") {
  for (const Subject& subject : subjects()) {
    inject("other versions", random_seeds(30, 500), [&](std::uint64_t seed) { return share(subject, seed); });
  }
}
