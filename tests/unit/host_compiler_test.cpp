// The host's compiler when it fails, is killed, or its caller is: what is said, and what is left behind.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <interpreter/host_compiler.h>
#include <interpreter/scratch_folder.h>

#include <csignal>
#include <iterator>

#include "../support/cache_fixtures.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;
using fa2::interpreter::ScratchFolder;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  fs::path temporary = directory / "tmp";
  ScopedEnvironment tmpdir{"TMPDIR", temporary.native()};
  ScopedEnvironment compiler{"FA2_CXX", (directory / "compiler").native()};

  Fixture() { fs::create_directory(temporary); }

  /// Compiles with a compiler that is this shell script.
  KernelBinary compile_with(const std::string& script) const {
    write_text(directory / "compiler", "#!/bin/sh\n" + script + "\n");
    fs::permissions(directory / "compiler", fs::perms(0700));
    KernelSource source;
    source.key = kKey;
    source.spec = "small kernel";
    source.main = {"main.cu", "int main;"};
    source.headers = {{"dir/header.cuh", ""}};
    return interpreter::make_host_compiler()->compile(source);
  }
  std::ptrdiff_t leftovers() const {
    return std::distance(fs::directory_iterator(temporary), fs::directory_iterator());
  }
};

/// The last argument is what the compiler shall write.
constexpr const char* kWorks = "for output; do :; done; echo code >\"$output\"";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a compilation leaves nothing behind, whether it ends well or not") {
  CHECK(compile_with(kWorks).code == bytes_of("code\n"));
  CHECK(leftovers() == 0);
  try {
    compile_with("echo 'no such type'; exit 3");
    FAIL("no error");
  } catch (const CompileError& error) {
    const std::string message = error.what();
    CHECK(
        message.find("ended with status 3; FA2_KEEP_SOURCE=DIR keeps source and log in DIR\nno such type") !=
        std::string::npos);
    CHECK(error.log() == "no such type\n");
    CHECK(error.source_path().empty());
  }
  CHECK(leftovers() == 0);
  CHECK_THROWS_AS(compile_with("exit 0"), CompileError);  // it wrote nothing
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(Fixture, "FA2_KEEP_SOURCE keeps source and log, and the error says where") {
  const ScopedEnvironment keep("FA2_KEEP_SOURCE", (directory / "kept").native());
  try {
    compile_with("echo 'no such type'; exit 3");
    FAIL("no error");
  } catch (const CompileError& error) {
    const fs::path folder = directory / "kept" / kKey;
    CHECK(std::string(error.what()).find("source and log kept in " + folder.native()) != std::string::npos);
    CHECK(error.source_path() == (folder / "main.cu").native());
    CHECK(read_text(folder / "main.cu") == "int main;");
    CHECK(read_text(folder / "log") == "no such type\n");
  }
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a compiler killed by a signal is said to be that, and is no verdict on the source") {
  for (const auto& [signal, text] :
       {std::pair{"KILL", "was killed by signal 9 (Killed); the system does so where memory runs out"},
        {"SEGV", "was killed by signal 11 (Segmentation fault)"}}) {
    try {
      compile_with(std::string("kill -") + signal + " $$");
      FAIL("no error");
    } catch (const Unavailable& error) {
      CHECK(std::string(error.what()).find(text) != std::string::npos);
    }
    CHECK(leftovers() == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "no compiler, no temporary directory and no place for sources are typed errors") {
  compile_with(kWorks);
  const auto message = [&] {
    try {
      compile_with(kWorks);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  {
    const ScopedEnvironment none("FA2_CXX", (directory / "none").native());
    CHECK(message().find("none of " + (directory / "none").native() + " could be started") !=
          std::string::npos);
  }
  {
    const ScopedEnvironment none("TMPDIR", "/nonexistent");
    CHECK(message().find("set TMPDIR to a directory") != std::string::npos);
  }
  const ScopedEnvironment none("FA2_KEEP_SOURCE", "/proc/x");
  CHECK(message().find("FA2_KEEP_SOURCE: cannot create directory /proc/x/") == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "folders of killed processes are removed by the next compilation, those in use are not") {
  const Pipe made;
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(fork_child([&] {
      const ScratchFolder folder;
      write_text(folder.path() / "dir" / "header.cuh", "text");
      made.send();
      for (;;) ::pause();
      return 0;
    }));
    made.receive();
  }
  write_text(temporary / "fa2-host-compiler-not-a-folder", "");
  fs::create_directory(temporary / "something else");
  fs::create_directory_symlink(directory.path(), temporary / "fa2-host-compiler-link");
  const std::ptrdiff_t others = 3;
  CHECK(leftovers() == others + 2);
  compile_with(kWorks);
  CHECK(leftovers() == others + 2);
  for (const std::ptrdiff_t left : {others + 1, others}) {
    ::kill(children.back(), SIGKILL);
    CHECK(wait_for(children.back()) == -SIGKILL);
    children.pop_back();
    CHECK(leftovers() == left + 1);
    compile_with(kWorks);
    CHECK(leftovers() == left);
  }
}

TEST_CASE_FIXTURE(Fixture, "a compilation that is killed leaves a folder until the next one") {
  const pid_t child = fork_child([&] {
    compile_with("echo $$ >" + (directory / "pid").native() + ".new; mv " + (directory / "pid").native() +
                 ".new " + (directory / "pid").native() + "; exec sleep 60");
    return 0;
  });
  while (!fs::exists(directory / "pid")) ::usleep(1000);
  ::kill(child, SIGKILL);
  CHECK(wait_for(child) == -SIGKILL);
  CHECK(leftovers() == 1);
  compile_with(kWorks);  // although the compiler itself still runs
  CHECK(leftovers() == 0);
  ::kill(std::stoi(read_text(directory / "pid")), SIGKILL);
}
