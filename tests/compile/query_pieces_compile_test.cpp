// Kernels for pieces of queries compile for the GPU families without spills, in every pass.
#include <autotune/config_choice.h>
#include <doctest/doctest.h>

#include <iterator>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/pairwise.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

enum class Variant { causal, window, alibi, dropout, packed, plain };
constexpr Variant kVariants[] = {Variant::causal,  Variant::window, Variant::alibi,
                                 Variant::dropout, Variant::packed, Variant::plain};

/// Returns the heuristic's kernels of a pass, in which any two choices meet.
std::vector<KernelSource> piece_kernels() {
  using enum KernelPass;
  constexpr const char* kGpus[] = {"sm_80", "sm_90a", "sm_100"};
  constexpr int kHeadDims[] = {64, 128, 256};
  constexpr KernelPass kPasses[] = {forward, dq, dk_dv, dq_dk_dv, ordered_dq_dk_dv};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kGpus) * std::size(kHeadDims), std::size(kPasses), std::size(kVariants)})) {
    const Arch& arch = *find_arch(kGpus[c[0] / std::size(kHeadDims)]);
    const Variant variant = kVariants[c[2]];
    PlannedProblem p = square(kHeadDims[c[0] % std::size(kHeadDims)],
                              kMasks[variant != Variant::plain && variant != Variant::dropout], 16384);
    p.dtype = c[1] % 2 == 0 ? DType::bf16 : DType::f16;
    p.query_pieces = true;
    if (variant == Variant::window) p.window_left = 1024;
    p.alibi = variant == Variant::alibi, p.dropout = variant == Variant::dropout;
    p.varlen = variant == Variant::packed;
    const auto choices = heuristic_choices(p, arch, kPasses[c[1]]);
    if (!choices.empty()) kernels.add(p, choices.front().config, arch);
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("the heuristic's kernels for pieces of queries compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(piece_kernels());
}
