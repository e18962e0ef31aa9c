// Files that a command writes: checked at once for being writable, and either complete or unchanged.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <tools/output_file.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace fa2;
using fa2::tools::OutputFile;

namespace {

std::size_t files_in(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

/// While it lives, no file of this process grows beyond `bytes`, as on a full disk.
class ScopedFileLimit {
 public:
  explicit ScopedFileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &saved_);
    const rlimit limit{bytes, saved_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~ScopedFileLimit() {
    setrlimit(RLIMIT_FSIZE, &saved_);
    std::signal(SIGXFSZ, handler_);
  }
  ScopedFileLimit(const ScopedFileLimit&) = delete;
  ScopedFileLimit& operator=(const ScopedFileLimit&) = delete;

 private:
  rlimit saved_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("output file: the old content stays until all of the new is written") {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "x") << "old";
  {
    OutputFile file(dir / "x");
    CHECK(files_in(dir.path()) == 1);  // opening it leaves nothing, in case the computation is interrupted
    file.write("new", 3);
    CHECK(test::read_text(dir / "x") == "old");
    file.commit();
    CHECK(test::read_text(dir / "x") == "new");
  }
  CHECK(files_in(dir.path()) == 1);
  OutputFile(dir / "x").write("unfinished", 10);
  CHECK(test::read_text(dir / "x") == "new");
  OutputFile unwritten(dir / "y");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("output file: a path that cannot be written is an error at once") {
  const test::TemporaryDirectory dir;
  CHECK_THROWS_WITH_AS(OutputFile(dir / "none" / "x"), doctest::Contains("none/x: No such file"), Error);
  CHECK_THROWS_WITH_AS(OutputFile(dir.path()), doctest::Contains(": Is a directory"), Error);
}

TEST_CASE("output file: a full disk loses the new file, not the old one") {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "x") << "old";
  const std::vector<char> bytes(1 << 16);
  {
    OutputFile file(dir / "x");
    const ScopedFileLimit limit(1000);
    CHECK_THROWS_WITH_AS(file.write(bytes.data(), bytes.size()), doctest::Contains("/x: File too large"),
                         Error);
  }
  CHECK(test::read_text(dir / "x") == "old");
  CHECK(files_in(dir.path()) == 1);
  if (!std::filesystem::exists("/dev/full")) {
    MESSAGE("partly skipped: there is no /dev/full");
    return;
  }
  OutputFile full("/dev/full");
  CHECK_THROWS_WITH_AS(full.write("x", 1), doctest::Contains("cannot write /dev/full: No space left"), Error);
}

TEST_CASE("output file: permissions and symbolic links stay, and devices are written directly") {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "x") << "old";
  chmod((dir / "x").c_str(), 0640);
  std::filesystem::create_symlink("x", dir / "link");
  OutputFile file(dir / "link");
  file.write("new", 3);
  file.commit();
  CHECK(std::filesystem::is_symlink(dir / "link"));
  CHECK(test::read_text(dir / "x") == "new");
  CHECK(test::mode_of(dir / "x") == 0640);
  OutputFile nothing("/dev/null");
  nothing.write("x", 1);
  nothing.commit();
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE(
    "output file: two outputs, or an output and an input, that are one file are detected under any name") {
  using tools::NamedFile;
  const test::TemporaryDirectory dir;
  const auto path = [&](const std::string& name) { return (dir / name).string(); };
  std::ofstream(dir / "x") << "old";
  std::filesystem::create_directory(dir / "folder");
  std::filesystem::create_directory_symlink("folder", dir / "link to folder");
  std::filesystem::create_symlink("x", dir / "link");
  std::filesystem::create_hard_link(dir / "x", dir / "hard link");
  const auto is_shared = [](const std::string& a, const std::string& b) {
    const bool as_output = !tools::shared_outputs({{"--a", a}, {"--b", b}}, {}).empty();
    CHECK(tools::shared_outputs({{"--a", a}}, {{"--b", b}}).empty() == !as_output);
    return as_output;
  };
  for (const char* name : {"x", "./x", "folder/../x", "link", "hard link"}) {
    CAPTURE(name);
    CHECK(is_shared(path("x"), path(name)));
  }
  CHECK(is_shared(path("new"), path("folder/../new")));
  CHECK(is_shared(path("folder/new"), path("link to folder/new")));
  CHECK(is_shared("new", std::filesystem::current_path() / "new"));
  CHECK_FALSE(is_shared(path("x"), path("new")));
  CHECK_FALSE(is_shared(path("new"), path("folder/new")));
  CHECK_FALSE(is_shared("", ""));
  CHECK_FALSE(is_shared("/dev/null", "/dev/null"));
  const auto found = tools::shared_outputs(
      {{"--out", path("x")}, {"--lse", path("link")}, {"--dq", path("q")}}, {{"--q", path("q")}});
  REQUIRE(found.size() == 2);
  CHECK(found[1].field == "--dq");
  CHECK(to_string(found[0]) ==
        "--lse = \"" + path("link") + "\", must not be the file of --out: give the output a file of its own");
}
