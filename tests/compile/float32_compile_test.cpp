// Kernels that store float32 compile for every GPU family without spills.
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

/// Returns kernels that store dK and dV in float32, or add up parts of them, in which any two choices meet.
std::vector<KernelSource> float32_gradient_kernels() {
  using enum KernelPass;
  constexpr int kHeadDims[] = {64, 72, 128, 256};
  constexpr KernelPass kPasses[] = {dk_dv, dk, dq_dk_dv, ordered_dq_dk_dv, dq_convert};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kFamilies), std::size(kHeadDims), std::size(kPasses), 3, 2})) {
    const Arch& arch = *find_arch(kFamilies[c[0]]);
    PlannedProblem p = square(kHeadDims[c[1]], kMasks[c[3] == 1], 4096);
    p.dtype = c[4] == 0 ? DType::f16 : DType::bf16;
    p.varlen = c[3] == 2;
    p.float32_dk_dv = true;
    if (c[4] == 1 && arch.compute_capability != 90) p.row_alignment = RowAlignment::element;
    const bool converts = kPasses[c[2]] == dq_convert;
    const auto choices = heuristic_choices(p, arch, converts ? dq_dk_dv : kPasses[c[2]]);
    if (choices.empty()) continue;
    kernels.add(p, converts ? conversion_of(choices[0].config).config : choices[0].config, arch);
  }
  return std::move(kernels).list();
}

/// Returns kernels that store dQ in float32, in which any two choices meet.
std::vector<KernelSource> float32_query_gradient_kernels() {
  using enum KernelPass;
  constexpr int kHeadDims[] = {64, 72, 128, 256};
  Kernels kernels;
  for (const Combination& c : pairwise({std::size(kFamilies), std::size(kHeadDims), 2, 3, 2})) {
    const Arch& arch = *find_arch(kFamilies[c[0]]);
    PlannedProblem p = square(kHeadDims[c[1]], kMasks[c[3] == 1], 4096);
    p.dtype = c[4] == 0 ? DType::f16 : DType::bf16;
    p.varlen = c[3] == 2;
    p.float32_dq = true;
    if (c[4] == 1) p.row_alignment = RowAlignment::element;
    const auto choices = heuristic_choices(p, arch, c[2] == 0 ? dq : dq_dk_dv);
    if (choices.empty()) continue;
    kernels.add(p, c[2] == 0 ? choices[0].config : conversion_of(choices[0].config).config, arch);
  }
  return std::move(kernels).list();
}

/// Returns the fused kernels on wgmma that sharded sequences use: their registers are full, so every one is compiled.
std::vector<KernelSource> sharded_gradient_kernels() {
  const Arch& arch = *find_arch("sm_90a");
  Kernels kernels;
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    for (const bool varlen : {false, true}) {
      for (const bool windowed : {false, true}) {
        PlannedProblem p = square(head_dim, MaskKind::causal_bottom_right, 4096);
        p.varlen = varlen;
        if (windowed) p.window_left = 500;
        p.query_pieces = p.float32_dk_dv = true;
        kernels.add(p, heuristic_choices(p, arch, KernelPass::dq_dk_dv)[0].config, arch);
      }
    }
  }
  return std::move(kernels).list();
}

/// Returns the heuristic's kernels that store O in float32, in which any two choices meet.
std::vector<KernelSource> float32_output_kernels() {
  constexpr std::pair<int, int> kDims[] = {{64, 64}, {72, 40}, {128, 128}, {256, 256}, {576, 512}};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kFamilies), std::size(kDims), kScoreVariants, 2, 2, 3, 2})) {
    const Arch& arch = *find_arch(kFamilies[c[0]]);
    PlannedProblem p = square(kDims[c[1]].first, kMasks[c[3]], 4096);
    p.head_dim_v = kDims[c[1]].second;
    vary_scores(p, c[2]);
    p.dtype = c[4] == 0 ? DType::f16 : DType::bf16;
    if (c[5] != 0) p.seqlen_q = 1;
    p.varlen = p.batch_invariant = c[5] == 2;
    if (c[6] == 1 && c[5] == 2) p.page_size = 16, p.page_count = 4096;
    if (c[6] == 1 && c[5] == 1) p.kv_type = KvType::e4m3;
    if (p.kv_type == KvType::e4m3 && c[1] == 1) p.head_dim = 80, p.head_dim_v = 48;
    p.float32_out = true;
    kernels.add(p, arch);
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("the heuristic's kernels for float32 O compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(float32_output_kernels());
}

TEST_CASE("the heuristic's kernels for float32 dK and dV compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(float32_gradient_kernels());
}

TEST_CASE("the heuristic's kernels for float32 dQ compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(float32_query_gradient_kernels());
}

TEST_CASE("the first choices for gradients of sharded sequences compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(sharded_gradient_kernels());
}
