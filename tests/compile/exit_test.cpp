// A process that exits while it compiles kernels in the background.
#include <autotune/candidates.h>
#include <doctest/doctest.h>
#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>
#include <runtime/task_queue.h>
#include <sys/wait.h>
#include <tests/support/device_under_test.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace fa2;

namespace {

constexpr int kThreads = 3, kExitStatus = 5;

/// Compiles candidates on several threads, as a study does, and exits after `delay`.
[[noreturn]] void compile_and_exit(std::chrono::milliseconds delay) {
  ::alarm(60);  // ends a process that hangs
  // Neither is destroyed, like the default context's.
  static Compiler& compiler = *make_nvrtc_compiler().release();
  static TaskQueue& queue = *new TaskQueue(std::chrono::milliseconds(0));
  static std::atomic<bool> begun = false;
  queue.add([](const std::stop_token& stop) {
    const Arch& arch = *find_arch("sm_90a");
    start_nvrtc(arch);
    stop_tasks_at_exit();
    begun = true;
    const PlannedProblem problem({.head_dim = 64, .seqlen_q = 1000, .seqlen_k = 1000}, {});
    const auto configs = search_candidates(problem, arch, TuneScope::likely, KernelPass::forward);
    for_each_index(configs.size(), kThreads, [&](std::size_t i) {
      if (!stop.stop_requested()) compiler.compile(render({traits_of(problem), configs[i], arch}));
    });
  });
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(delay);
  std::exit(kExitStatus);
}

}  // namespace

TEST_CASE("a process may exit at any time while kernels compile in the background") {
  if (fa2::test::nvrtc_missing()) return;
  for (const int delay : {0, 60, 150, 250, 400, 600, 900, 1300}) {
    CAPTURE(delay);
    const pid_t child = ::fork();
    if (child == 0) compile_and_exit(std::chrono::milliseconds(delay));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == kExitStatus);
  }
}
