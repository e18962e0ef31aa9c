// The cache from memory to the compiler: order, one compilation among threads and processes, failures.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/kernel_cache.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <latch>
#include <thread>

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

KernelSource source(const std::string& key = kKey) {
  KernelSource text;
  text.key = key;
  text.spec = "f16_d64_none tile_m=64 sm_80";
  text.precompile_command = "fa2 precompile --arch sm_80 --out DIR";
  text.arch.name = "sm_80";
  text.threads = 128;
  return text;
}

struct Fixture {
  TemporaryDirectory directory;
  std::shared_ptr<FakeCompiler> compiler = std::make_shared<FakeCompiler>();
  std::shared_ptr<DiskCache> user = std::make_shared<DiskCache>(directory / "user", kReadWrite);

  KernelCache cache(const std::vector<DiskCache>& read_only = {}, JitMode jit = JitMode::on) const {
    return {compiler, stores_of(read_only), user, jit};
  }
  DiskCache filled(const std::string& name) const {
    DiskCache(directory / name, kReadWrite).store(small_binary());
    return {directory / name, kReadOnly};
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "compiled once, then from memory, then from disk") {
  KernelCache first = cache();
  CHECK_FALSE(first.find(source()).has_value());
  const CachedKernel compiled = first.get(source());
  CHECK(compiled.origin == KernelOrigin::compiled);
  CHECK(compiled.path == user->path_of("sm_80", kKey));
  CHECK(compiled.binary->code == small_binary().code);

  const CachedKernel again = first.get(source());
  CHECK(again.origin == KernelOrigin::memory);
  CHECK(again.binary == compiled.binary);
  CHECK(again.path == compiled.path);
  CHECK(first.find(source()) == KernelOrigin::memory);

  KernelCache second = cache();
  CHECK(second.find(source()) == KernelOrigin::disk_cache);
  CHECK(second.get(source()).origin == KernelOrigin::disk_cache);
  CHECK(second.get(source()).origin == KernelOrigin::memory);
  CHECK(compiler->compiled == 1);
}

TEST_CASE_FIXTURE(Fixture, "a caller learns before the compiler starts that its kernel is compiled") {
  int calls = 0;
  const auto count = [&] {
    CHECK(compiler->compiled == 0);
    ++calls;
  };
  KernelCache first = cache();
  first.get(source(), count);
  CHECK(calls == 1);
  first.get(source(), count);
  cache().get(source(), count);
  CHECK(calls == 1);
}

TEST_CASE_FIXTURE(Fixture, "read-only directories come first, in their order") {
  user->store(small_binary());
  const DiskCache empty(directory / "empty", kReadOnly);
  KernelCache layered = cache({empty, filled("one"), filled("two")});
  CHECK(layered.find(source()) == KernelOrigin::read_only_cache);
  const CachedKernel kernel = layered.get(source());
  CHECK(kernel.origin == KernelOrigin::read_only_cache);
  CHECK(kernel.path.find((directory / "one").native()) == 0);
  CHECK(compiler->compiled == 0);
}

TEST_CASE_FIXTURE(Fixture, "without a writable user directory, kernels stay in memory") {
  const CapturedLog log;
  write_text(directory / "file", "");
  SUBCASE("none") {
    user = nullptr;
  }
  SUBCASE("unwritable") {
    user = std::make_shared<DiskCache>(directory / "file" / "x", kReadWrite);
  }
  KernelCache memory = cache();
  const CachedKernel kernel = memory.get(source());
  CHECK(kernel.origin == KernelOrigin::compiled);
  CHECK(kernel.path.empty());
  CHECK(memory.get(source()).origin == KernelOrigin::memory);
  CHECK(compiler->compiled == 1);
}

TEST_CASE_FIXTURE(Fixture, "forward_sm80's kernel of bytes16 is found for bytes16_any_order") {
  KernelSpec spec{traits_of({{.head_dim = 64}, {}}), parse_config("tile_m=64,tile_n=32,stages=1"),
                  *find_arch("sm_80")};
  cache().get(render(spec));
  spec.traits.row_alignment = RowAlignment::bytes16_any_order;
  CHECK(cache().get(render(spec)).origin == KernelOrigin::disk_cache);
  CHECK(compiler->compiled == 1);
}

TEST_CASE_FIXTURE(Fixture, "a damaged file is recompiled and replaced") {
  const CapturedLog log;
  cache().get(source());
  write_text(user->path_of("sm_80", kKey), "garbage");
  CHECK(cache().get(source()).origin == KernelOrigin::compiled);
  CHECK(compiler->compiled == 2);
  CHECK(cache().get(source()).origin == KernelOrigin::disk_cache);
  CHECK(log.lines() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "with the compiler off, a miss names the kernel, the directories and the command") {
  const DiskCache missing(directory / "missing", kReadOnly);
  KernelCache off = cache({missing}, JitMode::off);
  std::string message;
  try {
    off.get(source());
  } catch (const Unavailable& error) {
    message = error.what();
  }
  for (const std::string& part :
       {source().spec, kKey, (directory / "missing").native() + " (no such directory)",
        (directory / "user").native(), source().precompile_command, std::string("FA2_JIT=off"),
        std::string("FA2_CACHE_PATH=DIR")}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(compiler->compiled == 0);

  user->store(small_binary());  // the kernel is added later: the error was not remembered
  CHECK(off.get(source()).origin == KernelOrigin::disk_cache);
}

TEST_CASE_FIXTURE(Fixture,
                  "a failed compilation is rethrown without compiling again, and never stored on disk") {
  compiler->before = [] { throw CompileError("it spills", "the log", "/kept.cu"); };
  KernelCache failing = cache();
  for (int i = 0; i < 3; ++i) {
    try {
      failing.get(source());
      FAIL("no error");
    } catch (const CompileError& error) {
      CHECK(error.what() == std::string("it spills"));
      CHECK(error.log() == "the log");
      CHECK(error.source_path() == "/kept.cu");
    }
  }
  CHECK(compiler->compiled == 1);
  CHECK_FALSE(failing.find(source()).has_value());
  CHECK(user->entries().empty());

  compiler->before = nullptr;  // another process, with a repaired compiler
  CHECK(cache().get(source()).origin == KernelOrigin::compiled);
}

TEST_CASE_FIXTURE(Fixture, "a refused kernel is remembered on disk, and stays refused without the compiler") {
  compiler->before = [] { throw KernelRefused("spec: spills", "spills (nvrtc 12.3)", "log", ""); };
  KernelCache first = cache();
  CHECK_THROWS_WITH_AS(first.get(source()), "spec: spills", KernelRefused);
  for (const JitMode jit : {JitMode::on, JitMode::off}) {
    KernelCache second = cache({}, jit);
    CHECK_FALSE(second.find(source()).has_value());
    try {
      second.get(source());
      FAIL("a refused kernel was returned");
    } catch (const KernelRefused& error) {
      CHECK(error.reason() == "spills (nvrtc 12.3)");
      CHECK(std::string(error.what()).find(user->path_of("sm_80", kKey).native()) != std::string::npos);
    }
  }
  CHECK(compiler->compiled == 1);
  CHECK(user->entries().at(0).binary.refused == "spills (nvrtc 12.3)");

  CHECK(user->entries().at(0).binary.compiler == compiler->name);
}

TEST_CASE_FIXTURE(Fixture, "a refusal holds until another compiler or other rules may decide") {
  const auto refuse = [] { throw KernelRefused("spec: spills", "spills", "log", ""); };
  compiler->before = refuse;
  KernelCache first = cache();
  CHECK_THROWS_AS(first.get(source()), KernelRefused);
  CHECK_THROWS_AS(cache().get(source()), KernelRefused);
  CHECK(compiler->compiled == 1);

  compiler->name = "nvrtc 13.0, rules 1";
  CHECK_THROWS_AS(cache({}, JitMode::off).get(source()), KernelRefused);  // without a JIT the refusal holds
  CHECK(compiler->compiled == 1);
  CHECK_THROWS_AS(cache().get(source()), KernelRefused);  // compiled again, and refused again
  CHECK(compiler->compiled == 2);
  CHECK_THROWS_AS(cache().get(source()), KernelRefused);
  CHECK(compiler->compiled == 2);

  compiler->name = "";
  CHECK_THROWS_AS(cache().get(source()), KernelRefused);
  CHECK(compiler->compiled == 2);

  compiler->name = "nvrtc 13.0, rules 2";
  compiler->before = nullptr;
  CHECK(cache().get(source()).origin == KernelOrigin::compiled);
  compiler->name = "pretender 1.0";
  CHECK(cache().get(source()).origin ==
        KernelOrigin::disk_cache);  // the good kernel has replaced the refusal
}

TEST_CASE_FIXTURE(Fixture, "a pack's refusal is ignored if another directory holds the kernel") {
  KernelBinary refusal = small_binary(kKey, "");
  refusal.refused = "spills";
  refusal.compiler = compiler->name;
  DiskCache(directory / "pack", kReadWrite).store(refusal);
  const DiskCache pack(directory / "pack", kReadOnly);
  CHECK_THROWS_AS(cache({pack}).get(source()), KernelRefused);
  CHECK(cache({pack, filled("good")}).get(source()).origin == KernelOrigin::read_only_cache);
  user->store(small_binary());
  CHECK(cache({pack}).get(source()).origin == KernelOrigin::disk_cache);
  CHECK(compiler->compiled == 0);

  fs::remove(user->path_of("sm_80", kKey));
  compiler->name = "nvrtc 13.0, rules 1";
  compiler->before = [] { throw KernelRefused("spec: spills", "spills", "log", ""); };
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(cache({pack}).get(source()), KernelRefused);
  CHECK(compiler->compiled ==
        1);  // the second time the user's directory has the kernel, although the pack's refusal is stale
}

TEST_CASE_FIXTURE(Fixture, "a missing compiler is tried again") {
  compiler->before = [] { throw Unavailable("no NVRTC"); };
  KernelCache kernels = cache();
  CHECK_THROWS_AS(kernels.get(source()), Unavailable);
  CHECK_THROWS_AS(kernels.get(source()), Unavailable);
  CHECK(compiler->compiled == 2);
  compiler->before = nullptr;
  CHECK(kernels.get(source()).origin == KernelOrigin::compiled);
}

TEST_CASE_FIXTURE(Fixture, "eight threads that want one kernel compile it once") {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20;
  KernelCache kernels = cache();
  std::atomic<int> compiled{0};
  std::atomic<int> right{0};
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        start.arrive_and_wait();
        const std::string key = std::string(30, 'c') + std::to_string(10 + round);
        const CachedKernel kernel = kernels.get(source(key));
        compiled += kernel.origin == KernelOrigin::compiled ? 1 : 0;
        right += kernel.binary->key == key ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(compiler->compiled == kRounds);
  CHECK(compiled == kRounds);
  CHECK(right == kThreads * kRounds);
}

TEST_CASE_FIXTURE(Fixture, "different kernels compile at the same time") {
  std::latch both(2);
  compiler->before = [&] { both.arrive_and_wait(); };  // ends only if two compilations overlap
  KernelCache kernels = cache();
  std::thread other([&] { kernels.get(source(std::string(32, 'd'))); });
  kernels.get(source(std::string(32, 'e')));
  other.join();
  CHECK(compiler->compiled == 2);
}

TEST_CASE_FIXTURE(Fixture, "threads that wait for a failing compilation all get its error") {
  compiler->before = [] { throw CompileError("it spills", "", ""); };
  KernelCache kernels = cache();
  std::atomic<int> errors{0};
  std::barrier start(8);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        kernels.get(source());
      } catch (const CompileError&) {
        ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == 8);
  CHECK(compiler->compiled == 1);
}

TEST_CASE_FIXTURE(Fixture, "eight processes that share a directory compile a kernel once") {
  constexpr int kProcesses = 8;
  const CapturedLog log;
  const fs::path tally = directory / "compilations";
  const Pipe arrived;
  compiler->before = [&] {
    for (int i = 0; i < kProcesses; ++i) arrived.receive();  // the compilation lasts until all are waiting
    const int file = ::open(tally.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || ::write(file, "c", 1) != 1) throw std::runtime_error("no tally");
    ::close(file);
  };
  SUBCASE("empty") {}
  SUBCASE("with a damaged file") {
    write_text(user->path_of("sm_80", kKey), "garbage");
  }
  fs::create_directories(user->root());
  fs::permissions(user->root(), fs::perms(0700));
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork_child([&] {
      KernelCache kernels = cache();
      arrived.send();
      return kernels.get(source()).binary->code == small_binary().code ? 0 : 1;
    }));
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  CHECK(read_text(tally) == "c");
  CHECK(user->entries().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a process killed during a compilation does not block the next one") {
  const Pipe compiling;
  const pid_t child = fork_child([&] {
    compiler->before = [&] {
      compiling.send();
      for (;;) ::pause();
    };
    cache().get(source());
    return 0;
  });
  compiling.receive();
  ::kill(child, SIGKILL);
  CHECK(wait_for(child) == -SIGKILL);
  CHECK(cache().get(source()).origin == KernelOrigin::compiled);
  CHECK(user->load("sm_80", kKey).has_value());
}
