// The kernels of head dims beyond 256, and of values in keys, compile without spills.
#include <doctest/doctest.h>
#include <generator/kernel_kind.h>

#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/pairwise.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns kernels for one query, for a few in one tile and in two, and for prompts, paged and not, with plain and other scores, in which any two choices
/// meet.
std::vector<KernelSource> wide_kernels() {
  constexpr std::pair<int, int> kHeadDims[] = {{264, 264}, {320, 320}, {512, 512}, {576, 512}, {64, 512}};
  enum Use { decode, drafts, two_tiles, prompt, invariant };
  constexpr int kQueries[] = {1, 2, 8, 2048, 2048};
  enum Values { apart, in_keys, bytes, bytes_in_keys };
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kFamilies), std::size(kHeadDims), std::size(kQueries), kScoreVariants, 3, 4, 2})) {
    PlannedProblem p = square(512, kMasks[c[2] != decode], kQueries[c[2]]);
    std::tie(p.head_dim, p.head_dim_v) = kHeadDims[c[1]];
    p.heads_q = 16 * (p.heads_kv = 1);
    p.seqlen_k = 8192;
    p.dtype = c[6] == 0 ? DType::bf16 : DType::f16;
    p.values_in_keys = c[5] % 2 == 1 && p.head_dim_v <= p.head_dim;
    p.kv_type = c[5] >= bytes && p.head_dim % 16 == 0 ? KvType::e4m3 : KvType::same;
    if (c[5] == 0 && p.head_dim == 576 && p.head_dim_v == 512)
      p.kv_type = KvType::ds_mla, p.values_in_keys = true, p.dtype = DType::bf16;
    p.varlen = c[4] > 0;
    p.page_size = c[4] == 2 ? 64 : 0;
    p.page_count = c[4] == 2 ? 1 : 0;
    if (c[4] == 2 && c[5] % 2 == 0) p.page_size = 1, p.missing_pages = true;
    p.batch_invariant = c[2] == invariant;
    vary_scores(p, c[3]);
    kernels.add(p, *find_arch(kFamilies[c[0]]));
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("the heuristic's kernels of head dims beyond 256, and of values in keys, compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(wide_kernels());
}
