// scripts/mutate.py asks for no test that it does not need.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <string>

namespace {

/// What mutate_check.py prints.
std::string output_of(const std::string& arguments) {
  const fa2::test::TemporaryDirectory dir;
  const std::string out = (dir / "out").native();
  const std::string command = "python3 " FA2_SOURCE_DIR "/tests/unit/tests/mutate_check.py " + arguments;
  CHECK(std::system((command + " >" + out + " 2>/dev/null").c_str()) == 0);
  return fa2::test::read_text(out);
}

}  // namespace

TEST_CASE("mutate.py: of a given mutation, the test that fails alone is run without it") {
  CHECK(output_of("1 1") == "1 early b\n1 early a\n1 early b\nnone early b\n");
  CHECK(output_of("any 1") ==
        "without any mutation \"b\" fails (early): ended with status 1\n"
        "1 early a\n1 early b\nnone early b\n");
  CHECK(output_of("nothing 1") ==
        "1 never \n1 early a\n1 early b\n1 early c\n1 late,seed=7 a\n"
        "1 late,seed=7 b\n1 late,seed=7 c\n");
}

TEST_CASE("mutate.py: of all mutations, every test is run without one first") {
  const std::string text = output_of("none");
  CHECK(text.find(
            "without any mutation \"b\" fails (early): ended with status 1\nnone early a\nnone early b\n") ==
        0);
}
