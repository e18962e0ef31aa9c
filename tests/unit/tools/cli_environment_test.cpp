// Environment variables with mistakes: an error or a warning names the variable and its value.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using fa2::test::TemporaryDirectory;

struct Case {
  std::string variable;
  std::string verb;    ///< a verb that uses the variable
  std::string others;  ///< other variables, which keep the run short
};

const std::string kProblem = " --head-dim 16 --seqlen 16";

/// Places and programs, which can only be checked by using them.
const std::vector<Case> kPlaces = {
    {"FA2_CACHE_DIR", "explain --arch interpreter", "FA2_CXX=true"},
    {"FA2_CACHE_PATH", "dump --source --arch sm_80", ""},
    {"FA2_NVRTC", "explain --arch sm_80", ""},
    {"FA2_CXX", "explain --arch interpreter", ""},
    {"FA2_KEEP_SOURCE", "explain --arch interpreter", "FA2_CXX=true"},
};

}  // namespace

TEST_CASE("environment: a place that cannot be used is named with its variable") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "neither directory nor program";
  const std::string bad[] = {"/proc/x",
                             "/proc/self/mem",
                             "/dev/null",
                             "/dev/null/x",
                             (dir / "file").string(),
                             "/proc/a b",
                             "/dev/full/y/z",
                             "/sys/kernel/none/x",
                             "/proc/\xff\xfe",
                             "/proc/" + std::string(3000, 'x')};
  for (const Case& c : kPlaces) {
    for (const std::string& value : bad) {
      CAPTURE(c.variable);
      CAPTURE(value.substr(0, 40));
      const bool names_own_cache = c.variable == "FA2_CACHE_DIR";
      const std::string cache = names_own_cache ? "" : " FA2_CACHE_DIR=" + (dir / "cache").string();
      const std::string line = "env CUDA_VISIBLE_DEVICES= FA2_TUNE=off" + cache + " " + c.others + " '" +
                               c.variable + "=" + value + "' " FA2_COMMAND " " + c.verb + kProblem + " >" +
                               (dir / "out").string() + " 2>" + (dir / "err").string();
      const int status = std::system(line.c_str());
      CHECK(WIFEXITED(status));  // and not aborted
      CHECK(WEXITSTATUS(status) < 2);
      const std::string err = fa2::test::read_text(dir / "err");
      CAPTURE(err.substr(0, 500));
      CHECK(err.find(c.variable) != std::string::npos);
      CHECK(err.size() < 70000);
    }
  }
}

TEST_CASE("environment: a misspelt name gives a warning, and the run continues") {
  const TemporaryDirectory dir;
  const std::string line = "FA2_CONFGI=kernel=forward_sm90 FA2_CACHE_DIR=" + (dir / "cache").string() +
                           " " FA2_COMMAND " dump --source --arch sm_80 >" + (dir / "out").string() + " 2>" +
                           (dir / "err").string();
  CHECK(std::system(line.c_str()) == 0);
  CHECK(fa2::test::read_text(dir / "err").find("did you mean FA2_CONFIG?") != std::string::npos);
}

#else
TEST_CASE("environment") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
