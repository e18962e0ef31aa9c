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

}  // namespace

TEST_CASE("the heuristic's kernels for float32 dK and dV compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(float32_gradient_kernels());
}
