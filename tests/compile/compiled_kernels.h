// Sets of kernels that must compile without spills.
#pragma once

#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fa2::test {

inline constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right};
/// One GPU of each family.
inline constexpr const char* kFamilies[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/// A set of kernels, distinct by key.
class Kernels {
 public:
  void add(const PlannedProblem& problem, const Arch& arch) {
    const PlannedProblem p = problem.normalized();
    add(p, heuristic(p, arch).config, arch);
  }
  void add(const PlannedProblem& problem, const KernelConfig& config, const Arch& arch) {
    KernelSource source = render({traits_of(problem.normalized()), config, arch});
    by_key_.try_emplace(source.key, std::move(source));
  }

  std::vector<KernelSource> list() && {
    std::vector<KernelSource> list;
    for (auto& [key, source] : by_key_) list.push_back(std::move(source));
    return list;
  }

 private:
  std::map<std::string, KernelSource> by_key_;
};

/// Returns a problem with enough heads that there are many tiles.
inline PlannedProblem square(int head_dim, MaskKind mask, int seqlen) {
  PlannedProblem p;
  p.heads_q = p.heads_kv = 16;
  p.head_dim = head_dim;
  p.mask = mask;
  p.seqlen_q = p.seqlen_k = seqlen;
  return p;
}

/// Values of vary_scores().
inline constexpr std::size_t kScoreVariants = 6;

/// Gives the problem one variant of scores, or none.
inline void vary_scores(PlannedProblem& p, std::size_t variant) {
  enum Scores { plain, windowed, alibi, capped, sinks, dropout };
  if (variant == windowed) p.window_left = 500;
  p.alibi = variant == alibi;
  p.softcap = variant == capped;
  p.sinks = variant == sinks;
  p.dropout = variant == dropout;
}

inline void check_that_they_compile_without_spills(const std::vector<KernelSource>& kernels) {
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

}  // namespace fa2::test
