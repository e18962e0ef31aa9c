// The host's compiler fails or is killed, or its caller is: the messages, and what is left behind.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/template_set.h>
#include <interpreter/host_compiler.h>
#include <interpreter/scratch_folder.h>
#include <runtime/interrupt.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <unistd.h>

#include <csignal>
#include <iterator>
#include <sstream>
#include <string>

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

/// Returns whether the process is gone, or is a zombie that its parent has not yet reaped.
bool has_ended(pid_t pid) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/stat");
  return status.empty() || status.find(") Z ") != std::string::npos ||
         status.find(") X ") != std::string::npos;
}

/// Its last argument is the file that the compiler must write.
constexpr const char* kWorks = "for output; do :; done; echo code >\"$output\"";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a compilation leaves nothing behind, whether or not it succeeds") {
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
  CHECK_THROWS_AS(compile_with("exit 0"), CompileError);  // it wrote no file
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "the compiler is told where in the repository a file comes from, unless sources are kept") {
  const std::string copies =
      "for output; do :; done; cd $(dirname $output); cat main.cu dir/header.cuh >$output";
  CHECK(compile_with(copies).code ==
        bytes_of("#line 1 \"templates/main.cu\"\nint main;#line 1 \"templates/dir/header.cuh\"\n"));
  const ScopedEnvironment keep("FA2_KEEP_SOURCE", (directory / "kept").native());
  compile_with(kWorks);
  CHECK(read_text(directory / "kept" / kKey / "main.cu") == "int main;");
}

TEST_CASE("files of interpreted kernels are found in the repository") {
  for (const char* name :
       {"attention/common/mask.cuh", "ptx/mma.cuh", "machine.cuh", "attention/forward/sm80/kernel.cu"})
    CHECK(fs::exists(fs::path(FA2_SOURCE_DIR) / path_in_repository(name)));
  CHECK(path_in_repository("config.cuh") == "config.cuh");
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
                  "FA2_KEEP_SOURCE is rejected if others could have prepared it, and nothing is written") {
  const fs::path target = directory / "target", kept = directory / "kept";
  fs::create_directory(target);
  const ScopedEnvironment keep("FA2_KEEP_SOURCE", kept.native());
  const auto refusal = [&] {
    try {
      compile_with(kWorks);
    } catch (const CacheError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto is_refused = [&](const std::string& cause) {
    const std::string message = refusal();
    CAPTURE(message);
    CHECK(message.find("FA2_KEEP_SOURCE = " + kept.native() + ", must be a folder") == 0);
    CHECK(message.find(cause) != std::string::npos);
    CHECK(message.find("name another folder") != std::string::npos);
    CHECK(fs::is_empty(target));
  };
  fs::create_directory_symlink(target, kept);
  is_refused("is a symbolic link");
  {
    const ScopedEnvironment with_slash("FA2_KEEP_SOURCE", kept.native() + "/");
    CHECK(refusal().find("is a symbolic link") != std::string::npos);
  }
  fs::remove(kept);

  fs::create_directory(kept);
  fs::permissions(kept, fs::perms(0777));
  is_refused("every user may write to " + kept.native());
  CHECK(fs::is_empty(kept));
  fs::permissions(kept, fs::perms(0700));

  fs::create_directory_symlink(target, kept / kKey);
  is_refused("is a symbolic link");
  fs::remove(kept / kKey);

  write_text(target / "file", "mine");
  fs::create_directories(kept / kKey);
  fs::create_symlink(target / "file", kept / kKey / "main.cu");
  CHECK(refusal().find("is a symbolic link") != std::string::npos);
  CHECK(read_text(target / "file") == "mine");
  fs::remove(kept / kKey / "main.cu");
  CHECK(refusal() == "");
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(Fixture, "FA2_KEEP_SOURCE of another user is rejected") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a folder to another user");
    return;
  }
  fs::create_directory(directory / "kept");
  REQUIRE(::chown((directory / "kept").c_str(), 12345, 12345) == 0);
  const ScopedEnvironment keep("FA2_KEEP_SOURCE", (directory / "kept").native());
  CHECK_THROWS_WITH_AS(compile_with(kWorks), doctest::Contains("belongs to user 12345"), CacheError);
  CHECK(fs::is_empty(directory / "kept"));
}

TEST_CASE_FIXTURE(Fixture, "nothing is loaded from FA2_KEEP_SOURCE") {
  const ScopedEnvironment keep("FA2_KEEP_SOURCE", (directory / "kept").native());
  write_text(directory / "kept" / kKey / "kernel.so", "prepared");
  fs::permissions(directory / "kept", fs::perms(0700));
  fs::permissions(directory / "kept" / kKey, fs::perms(0700));
  CHECK_THROWS_AS(compile_with("exit 0"), CompileError);  // it wrote no file
  CHECK(compile_with(kWorks).code == bytes_of("code\n"));
  CHECK(read_text(directory / "kept" / kKey / "kernel.so") == "prepared");
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a compiler crash is reported as such, and is no verdict on the source") {
  CHECK_THROWS_WITH_AS(compile_with("kill -SEGV $$"),
                       doctest::Contains("was killed by signal 11 (Segmentation fault)"), Unavailable);
  CHECK(leftovers() == 0);
}

TEST_CASE_FIXTURE(
    Fixture, "a compiler that was killed counts as interrupted, and so does one whose child was killed") {
  const struct {
    const char *script, *text;
  } cases[] = {
      {"kill -KILL $$", "was killed by signal 9 (Killed); the system does so when memory runs out"},
      {"kill -INT $$", "was killed by signal 2 (Interrupt)"},
      {"kill -TERM $$", "was killed by signal 15 (Terminated)"},
      {"echo 'c++: fatal error: Interrupt signal terminated program cc1plus'; exit 1",
       "signal 2 (Interrupt)"},
      {"echo 'c++: fatal error: Killed signal terminated program cc1plus'; exit 1", "signal 9 (Killed)"},
      {"echo 'collect2: fatal error: ld terminated with signal 15 [Terminated]'; exit 1", "signal 15 (Term"},
      {"echo 'clang: error: unable to execute command: Killed'; exit 254", "signal 9 (Killed)"},
  };
  for (const auto& killed : cases) {
    CAPTURE(killed.script);
    CHECK_THROWS_WITH_AS(compile_with(killed.script), doctest::Contains(killed.text), Interrupted);
    CHECK(leftovers() == 0);
  }
  CHECK_THROWS_AS(
      compile_with("echo 'c++: internal compiler error: Segmentation fault signal terminated program "
                   "cc1plus'; exit 4"),
      CompileError);
}

TEST_CASE_FIXTURE(Fixture,
                  "the program's interrupt function ends a compilation, and the compiler with its children") {
  const fs::path pids = directory / "pids";
  set_interrupt([](void* file) { return fs::exists(*static_cast<const fs::path*>(file)) ? 1 : 0; },
                const_cast<fs::path*>(&pids));
  CHECK_THROWS_AS(compile_with("sleep 600 & echo $$ $! >" + pids.native() + ".new; mv " + pids.native() +
                               ".new " + pids.native() + "; wait"),
                  Interrupted);
  set_interrupt(nullptr, nullptr);
  CHECK(leftovers() == 0);
  std::istringstream both(read_text(pids));
  int ended = 0;
  for (pid_t pid = 0; both >> pid; ++ended) {
    for (int tries = 0; tries < 1000 && !has_ended(pid); ++tries) ::usleep(10000);
    CHECK(has_ended(pid));
  }
  CHECK(ended == 2);
  CHECK(compile_with(kWorks).code == bytes_of("code\n"));
}

TEST_CASE_FIXTURE(Fixture, "Ctrl-C does not reach the compiler, which has a process group of its own") {
  compile_with("read -r _ _ _ _ group _ </proc/$$/stat; echo $group $$ >" + (directory / "group").native() +
               "; " + kWorks);
  std::istringstream text(read_text(directory / "group"));
  pid_t group = 0, pid = 0;
  text >> group >> pid;
  CHECK(pid > 0);
  CHECK(group == pid);
  CHECK(group != ::getpgrp());
}

TEST_CASE_FIXTURE(Fixture, "a missing compiler, temporary directory or source directory is a typed error") {
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
  CHECK(message().find("FA2_KEEP_SOURCE = /proc/x, must be a folder") == 0);
  CHECK(message().find("cannot create directory /proc/x") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a compilation removes the folders of killed processes, but not folders in use") {
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

TEST_CASE_FIXTURE(
    Fixture, "a killed compilation leaves one folder with all temporary files, until the next compilation") {
  const pid_t child = fork_child([&] {
    compile_with("mktemp; echo $$ >" + (directory / "pid").native() + ".new; mv " +
                 (directory / "pid").native() + ".new " + (directory / "pid").native() + "; exec sleep 60");
    return 0;
  });
  while (!fs::exists(directory / "pid")) ::usleep(1000);
  ::kill(child, SIGKILL);
  CHECK(wait_for(child) == -SIGKILL);
  CHECK(leftovers() == 1);
  compile_with(kWorks);  // although the compiler still runs
  CHECK(leftovers() == 0);
  ::kill(std::stoi(read_text(directory / "pid")), SIGKILL);
}
