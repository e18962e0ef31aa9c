// tests/mutations finds the code of every planted bug, and mutate.py runs no unnecessary test.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <string>

namespace {

/// Returns what a Python program below tests/ prints. The program must succeed.
std::string output_of(const std::string& program) {
  const fa2::test::TemporaryDirectory dir;
  const std::string out = (dir / "out").native();
  CHECK(std::system(("python3 -B " FA2_SOURCE_DIR "/tests/" + program + " >" + out).c_str()) == 0);
  return fa2::test::read_text(out);
}

std::string experiment(const std::string& arguments) {
  return output_of("unit/tests/mutate_check.py " + arguments + " 2>/dev/null");
}

}  // namespace

TEST_CASE("the code of every planted bug is found exactly once") {
  CHECK(output_of("mutations/mutate.py --list").size() > 0);
}

TEST_CASE("changes in comments, line breaks and other code do not hide a planted bug's code") {
  CHECK(output_of("mutations/anchor_test.py") == "");
}

TEST_CASE("mutate.py: with given mutations, only the failing test runs without the mutation") {
  CHECK(experiment("1 1") == "1 early b\n1 early a\n1 early b\nnone early b\n");
  CHECK(experiment("any 1") ==
        "without any mutation \"b\" fails (early): ended with status 1\n"
        "1 early a\n1 early b\nnone early b\n");
  CHECK(experiment("nothing 1") ==
        "1 never \n1 early a\n1 early b\n1 early c\n1 late,seed=7 a\n"
        "1 late,seed=7 b\n1 late,seed=7 c\n");
}

TEST_CASE("mutate.py: with all mutations, every test first runs without one") {
  const std::string text = experiment("none");
  CHECK(text.find(
            "without any mutation \"b\" fails (early): ended with status 1\nnone early a\nnone early b\n") ==
        0);
}
