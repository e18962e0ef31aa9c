// The kernels of 8-bit keys and values, and of widened ones, compile without spills.
#include <doctest/doctest.h>
#include <generator/kernel_kind.h>

#include <iterator>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/pairwise.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns kernels of 8-bit keys and values, for one query, for tiles of 16 and of 32 rows and for prompts, paged and not, with plain and
/// other scores, in which any two choices meet.
std::vector<KernelSource> byte_key_kernels() {
  constexpr int kHeadDims[] = {32, 64, 80, 96, 128, 192, 256};
  enum Use { decode, drafts, many_drafts, prompt, invariant };
  constexpr int kQueries[] = {1, 4, 12, 2048, 2048};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kFamilies), std::size(kHeadDims), std::size(kQueries), kScoreVariants, 2, 4})) {
    PlannedProblem p = square(kHeadDims[c[1]], kMasks[c[2] != decode], kQueries[c[2]]);
    p.heads_q = 8 * (p.heads_kv = 4);
    p.seqlen_k = 8192;
    p.kv_type = KvType::e4m3;
    p.dtype = c[4] == 0 ? DType::bf16 : DType::f16;
    p.varlen = c[5] > 0;
    p.page_size = c[5] == 2 ? 16 : c[5] == 3 ? 64 : 0;
    p.batch_invariant = c[2] == invariant;
    vary_scores(p, c[3]);
    kernels.add(p, *find_arch(kFamilies[c[0]]));
  }
  return std::move(kernels).list();
}

/// Returns the kernels of plans of two steps: from few queries to many, with plain and other scores.
std::vector<KernelSource> widened_key_kernels() {
  const Arch& hopper = *find_arch("sm_90a");
  Kernels kernels;
  int i = 0;
  for (const int head_dim : {32, 64, 96, 128, 192, 256}) {
    PlannedProblem p = square(head_dim, kMasks[i % 2], 0);
    p.dtype = i % 2 == 0 ? DType::bf16 : DType::f16;
    p.kv_type = KvType::e4m3;
    p.varlen = i % 3 > 0;
    p.page_size = i % 3 > 1 ? 16 : 0;
    kernels.add(p, default_config(KernelId::widen), hopper);
    p.kv_type = KvType::scaled;
    p.page_size = 0;
    for (const int seqlen : {64, 512, 4096}) {
      p.seqlen_q = p.seqlen_k = seqlen;
      kernels.add(p, hopper);
    }
    p.softcap = true;
    kernels.add(p, hopper);
    ++i;
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("the heuristic's kernels of 8-bit keys and values compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(byte_key_kernels());
}

TEST_CASE("kernels that widen 8-bit keys, and the heuristic's for widened ones, compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(widened_key_kernels());
}
