// attention() under the numerics contract: dtypes, head dims, masks, ragged lengths, grouped heads.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cmath>
#include <utility>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

struct Case {
  AttentionProblem problem;
  float scale;
};

/// Returns the cases. On the interpreter only half of them: head dims and masks alternate between the dtypes.
std::vector<Case> cases() {
  const bool halved = device_under_test() == kInterpreterDevice;
  const std::vector<std::pair<int, int>> lengths = {{1, 129}, {127, 113}, {65, 64}, {251, 333}, {64, 0}};
  const std::vector<std::pair<int, int>> head_dims = {{8, 8},     {64, 64},   {72, 40},
                                                      {128, 128}, {192, 128}, {256, 256}};
  std::vector<Case> list;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    bool is_other_half = dtype == DType::bf16;
    for (const auto& [d, dv] : head_dims) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
        is_other_half = !is_other_half;
        if (halved && is_other_half) continue;
        for (const auto& [sq, sk] : lengths) {
          const std::size_t i = list.size();
          AttentionProblem p;
          p.dtype = dtype;
          p.mask = mask;
          p.head_dim = d;
          p.head_dim_v = dv;
          p.batch = 2;
          p.heads_q = 4;
          p.heads_kv = std::vector<int>{4, 2, 1}[i % 3];
          p.seqlen_q = sq;
          p.seqlen_k = sk;
          const float scale = std::vector<float>{1.0f, -0.5f, 0.0f, 3.0f}[i % 4];
          list.push_back({p, scale / std::sqrt(static_cast<float>(d))});
        }
      }
    }
  }
  return list;
}

}  // namespace

TEST_CASE("the numerics contract holds over dtypes, head dims, masks, lengths and groups") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const std::vector<Case> all = cases();
  std::vector<AttentionProblem> problems;
  for (const Case& c : all) problems.push_back(c.problem);
  precompile(context, problems);
  for (const Case& c : all) {
    GuardedCall call(c.problem);
    call.args.softmax_scale = c.scale;
    INFO("scale ", c.scale);
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("more heads than one section of the grid interleaves, in sections of unequal size") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  // 5 x 13 = 65 heads: 33 and 32.
  run_and_expect_contract(context, GuardedCall({.head_dim = 8,
                                                .mask = MaskKind::causal_bottom_right,
                                                .batch = 5,
                                                .heads_q = 13,
                                                .seqlen_q = 70,
                                                .seqlen_k = 40}));
}
