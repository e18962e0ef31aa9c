// A directory that is removed, exchanged or made read-only under a running process.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <unistd.h>

#include <array>

#include "campaign.h"
#include "subject.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kNobody = 65534;
constexpr std::array<const char*, 7> kChanges = {
    "nothing", "a file", "a link", "of mode 0000", "of mode 0500", "of mode 0777", "another name"};

/// Folders of a cache, and the directory itself.
fs::path some_folder(const Subject& subject, const fs::path& root, Random& random) {
  fs::path folder = subject.files(root)[0].parent_path();
  for (std::size_t up = below(random, 4); up > 0 && folder != root; --up) folder = folder.parent_path();
  return folder;
}

void change(const fs::path& folder, std::size_t kind, const fs::path& elsewhere) {
  if (kind == 0) fs::remove_all(folder);
  if (kind == 1 || kind == 2 || kind == 6) fs::rename(folder, elsewhere);
  if (kind == 1) write_text(folder, "");
  if (kind == 2) fs::create_symlink(elsewhere, folder);
  if (kind == 3) ::chmod(folder.c_str(), 0000);
  if (kind == 4) ::chmod(folder.c_str(), 0500);
  if (kind == 5) ::chmod(folder.c_str(), 0777);
}

/// Runs as a user whom permissions bind. Returns an Outcome.
int use_changed(const Subject& subject, const fs::path& directory, Random& random) {
  if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
    return static_cast<int>(Outcome::none);
  const fs::path root = directory / "root";
  subject.make(root);
  const fs::path folder = some_folder(subject, root, random);
  const std::size_t kind = below(random, kChanges.size());
  const Operation& operation = subject.operations[below(random, subject.operations.size())];
  describe(fmt::format("{}: {} became {}, then {}", subject.name,
                       folder.lexically_relative(directory).native(), kChanges[kind], operation.name));
  change(folder, kind, directory / "elsewhere");
  Verdict verdict = operation.run(root);
  if (verdict.outcome != Outcome::wrong) verdict = subject.judge(root, false);
  if (verdict.outcome == Outcome::wrong) fmt::print("{}\n", verdict.why);
  std::fflush(stdout);
  for (const fs::path& path : {folder, root}) ::chmod(path.c_str(), 0700);
  return static_cast<int>(verdict.outcome);
}

Verdict change_directory(const Subject& subject, std::uint64_t seed) {
  Random random(seed);
  const TemporaryDirectory directory;
  if (::geteuid() == 0 && ::chown(directory.path().c_str(), kNobody, kNobody) != 0)
    return {Outcome::none, ""};
  const int status = wait_for(fork_child([&] { return use_changed(subject, directory.path(), random); }));
  if (status < 0 || status > static_cast<int>(Outcome::none))
    return wrong(fmt::format("the process ended with {}", status));
  return {static_cast<Outcome>(status), status == static_cast<int>(Outcome::wrong) ? "see above" : ""};
}

}  // namespace

TEST_CASE("directories that change") {
  for (const Subject& subject : subjects()) {
    inject("directory changes", random_seeds(100, 1000),
           [&](std::uint64_t seed) { return change_directory(subject, seed); });
  }
}
