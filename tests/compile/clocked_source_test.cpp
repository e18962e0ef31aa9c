// The clock readings that a benchmark adds to a kernel compile, and cause no register to spill.
#include <autotune/heuristic.h>
#include <bench/clocked_source.h>
#include <doctest/doctest.h>
#include <runtime/compiler.h>

#include <string>

#include "../support/device_under_test.h"

using namespace fa2;

namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a clocked kernel compiles, and reads both clocks at its start and at its end") {
  if (fa2::test::nvrtc_missing()) return;
  for (const char* name : {"sm_80", "sm_90a"}) {
    const Arch& arch = *find_arch(name);
    for (const int head_dim : {64, 128, 256}) {
      INFO(std::string(name), " d ", head_dim);
      PlannedProblem problem;
      problem.head_dim = head_dim;
      problem.seqlen_q = problem.seqlen_k = 4096;
      problem = problem.normalized();
      const KernelConfig config = heuristic(problem, arch).config;
      const int thread = bench::first_computing_thread(config);
      CHECK(thread == (config.kernel == KernelId::forward_sm90 ? 128 : 0));
      const KernelSource source = bench::clocked(render({traits_of(problem), config, arch}), thread, &thread);
      CHECK_NOTHROW(make_nvrtc_compiler()->compile(source));
      const std::string ptx = nvrtc_ptx(source);
      CHECK(occurrences(ptx, "%globaltimer") == 2);
      CHECK(occurrences(ptx, "%clock64") == 2);
    }
  }
}
