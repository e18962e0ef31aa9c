// How scripts/run_tests.sh counts: a case that a machine cannot run has neither passed nor failed.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

const std::string kDoctest = "printf '[doctest] test cases: 3 | %d passed | %d failed | 0 skipped\\n' ";
const std::string kTwoSkipped = "echo 'a.cpp:1: MESSAGE: skipped: no moon'; echo 'skipped here: 2'; ";

void write_program(const fs::path& path, const std::string& body) {
  write_text(path, "#!/bin/sh\n" + body + "\n");
  fs::permissions(path, fs::perms::owner_all);
}

/// Runs the script with suites that only print: 7 tests pass and 2 are skipped.
struct Fixture {
  TemporaryDirectory dir;
  int status = -1;

  Fixture() {
    fs::create_directories(dir / "scripts");
    for (const char* script : {"run_tests.sh", "part.sh"})
      fs::copy_file(FA2_SOURCE_DIR "/scripts/" + std::string(script), dir / "scripts" / script);
    write_program(dir / "tests/package/run.sh", "exit 0");
    write_program(dir / "scripts/test_rust.sh", "exit 0");
    for (const char* example : {"fa2_train", "fa2_generate", "fa2_engine", "fa2_scores"})
      write_program(dir / "build/examples" / example, "exit 0");
    suite("unit", kDoctest + "3 0");
    suite("golden", kDoctest + "3 0");
    suite("gpu", kTwoSkipped + kDoctest + "3 0");
    suite("faults", kDoctest + "1 0");
    suite("compile", "");
    suite("interpreter", "");
  }

  void suite(const std::string& name, const std::string& body) {
    write_program(dir / "build/tests" / ("fa2_" + name + "_tests"), body);
  }

  std::string run(const std::string& tier = "") {
    const std::string script = (dir / "scripts/run_tests.sh").native(), out = (dir / "out").native();
    status = WEXITSTATUS(
        std::system(("bash " + script + " " + (dir / "build").native() + " " + tier + " >" + out).c_str()));
    return read_text(out);
  }
};

std::string last_line(const std::string& text) {
  const std::size_t end = text.rfind('\n'), before = text.rfind('\n', end - 1);
  return text.substr(before + 1, end - before - 1);
}

}  // namespace

TEST_CASE("a case says that it is skipped" * doctest::skip()) {
  MESSAGE("skipped: to be counted");
}
TEST_CASE("a case says that it is skipped, and fails" * doctest::skip()) {
  MESSAGE("skipped: to be counted");
  FAIL("as it must");
}
TEST_CASE("a case says nothing about being skipped" * doctest::skip()) {
  MESSAGE("this is not skipped: it passes");
}

TEST_CASE("a test binary counts the cases that say they are skipped and did not fail") {
  const TemporaryDirectory dir;
  const std::string self = fs::read_symlink("/proc/self/exe").native(), out = (dir / "out").native();
  CHECK(std::system((self + " --no-skip -tc='a case says *' >" + out).c_str()) != 0);
  const std::string text = read_text(dir / "out");
  CAPTURE(text);
  CHECK(text.find("\nskipped here: 1\n") != std::string::npos);
  CHECK(text.find("| 2 passed | 1 failed |") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "run_tests.sh: skipped cases have not passed, and each reason is printed once") {
  const std::string text = run();
  CHECK(last_line(text) == "17 passed, 2 skipped, 0 failed");
  CHECK(text.find("\nskipped: no moon\n") != std::string::npos);
  CHECK(text.find("no moon") == text.rfind("no moon"));
  CHECK(status == 0);
}

TEST_CASE_FIXTURE(Fixture, "run_tests.sh: a suite whose every case is skipped has not failed") {
  suite("golden", "echo 'a.cpp:1: MESSAGE: skipped: no moon'; echo 'skipped here: 3'; " + kDoctest + "3 0");
  CHECK(last_line(run()) == "14 passed, 5 skipped, 0 failed");
  CHECK(status == 0);
}

TEST_CASE_FIXTURE(Fixture, "run_tests.sh: a suite that fails, ends early, or has no case is a failure") {
  suite("unit", kDoctest + "2 1; exit 1");
  suite("golden", kTwoSkipped + "exit 3");
  suite("gpu", kDoctest + "0 0");
  CHECK(last_line(run()) == "12 passed, 0 skipped, 3 failed");
  CHECK(status == 1);
}

TEST_CASE_FIXTURE(Fixture, "run_tests.sh: parts of the kernels' jobs run, and all of them on request") {
  suite("interpreter", "case $1 in --list*) seq 16;; *) " + kDoctest + "1 0;; esac");
  // The suite has sixteen cases. Early, a 16th of them runs: one. Late, a 32nd: none.
  CHECK(last_line(run()) == "18 passed, 2 skipped, 0 failed");
  CHECK(last_line(run("all")) == "49 passed, 2 skipped, 0 failed");
}
