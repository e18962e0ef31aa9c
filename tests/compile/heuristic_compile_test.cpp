// Every kernel the heuristic picks for common head dims compiles for every GPU family without spilling a
// register.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../support/device_under_test.h"

using namespace fa2;

namespace {

/// Distinct kernels, by key.
std::vector<KernelSource> heuristic_kernels() {
  std::map<std::string, KernelSource> kernels;
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}) {
    const Arch& arch = *find_arch(name);
    for (const int head_dim : {40, 64, 96, 128, 192, 200, 256}) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
        for (const int seqlen : {64, 4096}) {
          PlannedProblem p;
          p.head_dim = head_dim;
          p.mask = mask;
          p.seqlen_q = p.seqlen_k = seqlen;
          p = p.normalized();
          KernelSource source = render({traits_of(p), heuristic(p, arch).config, arch});
          kernels.try_emplace(source.key, std::move(source));
        }
      }
    }
  }
  std::vector<KernelSource> list;
  for (auto& [key, source] : kernels) list.push_back(std::move(source));
  return list;
}

}  // namespace

TEST_CASE("the heuristic's kernels compile for every GPU family without spills") {
  if (fa2::test::nvrtc_missing()) return;
  const std::vector<KernelSource> kernels = heuristic_kernels();
  const auto compiler = make_nvrtc_compiler();
  std::vector<std::string> errors(kernels.size());
  std::vector<KernelBinary> binaries(kernels.size());
  for_each_index(kernels.size(), static_cast<int>(std::thread::hardware_concurrency()), [&](std::size_t i) {
    try {
      binaries[i] = compiler->compile(kernels[i]);
    } catch (const Error& error) {
      errors[i] = error.what();
    }
  });
  int worst_registers = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    CHECK_MESSAGE(errors[i].empty(), errors[i]);
    CHECK(binaries[i].resources.spill_store_bytes == 0);
    worst_registers = std::max(worst_registers, binaries[i].resources.registers);
  }
  MESSAGE(kernels.size() << " kernels, at most " << worst_registers << " registers");
}
