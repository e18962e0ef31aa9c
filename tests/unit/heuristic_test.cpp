// The heuristic has a valid configuration, and a reason, for every problem and GPU there is.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>

#include <string>
#include <vector>

using namespace fa2;

namespace {

/// Every arch, alignment, mask and length for one pair of head dims.
void check_head_dims(int head_dim, int head_dim_v) {
  for (const Arch& arch : known_archs()) {
    for (const RowAlignment alignment : {RowAlignment::bytes16, RowAlignment::element}) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
        for (const int seqlen : {1, 64, 512, 4096, 100000}) {
          AttentionProblem p{
              .head_dim = head_dim, .head_dim_v = head_dim_v, .mask = mask, .row_alignment = alignment};
          p.seqlen_q = p.seqlen_k = seqlen;
          const HeuristicChoice choice = heuristic(p, arch);
          const std::string broken = why_rejected({traits_of(p), choice.config, arch}).value_or("");
          CHECK_MESSAGE(broken.empty(), to_string(p), " on ", std::string(arch.name), ": ", broken);
          CHECK_FALSE(choice.reason.empty());
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("heuristic: valid for every head dim") {
  for (int dim = 8; dim <= 256; dim += 8) check_head_dims(dim, dim);
}

TEST_CASE("heuristic: valid for unequal head dims") {
  std::vector<int> dims = {256};
  for (int dim = 8; dim < 256; dim += 24) dims.push_back(dim);
  for (const int dim : dims) {
    for (const int dim_v : dims) check_head_dims(dim, dim_v);
  }
}

TEST_CASE("heuristic: heads that share keys are packed until they fill a tile") {
  const auto packed = [](int heads_q, int heads_kv, int seqlen_q) {
    AttentionProblem p;
    p.head_dim = 64;
    p.heads_q = heads_q;
    p.heads_kv = heads_kv;
    p.seqlen_q = seqlen_q;
    p.seqlen_k = 4096;
    return packed_heads(p.normalized(), 64);
  };
  CHECK(packed(8, 8, 1) == 1);
  CHECK(packed(32, 8, 1) == 4);
  CHECK(packed(32, 8, 16) == 4);
  CHECK(packed(32, 8, 20) == 4);
  CHECK(packed(32, 8, 32) == 2);
  CHECK(packed(32, 8, 64) == 1);
  CHECK(packed(12, 2, 1) == 2);  // of 6
  CHECK(packed(7, 1, 1) == 1);
  CHECK(packed(128, 1, 1) == 64);
}

TEST_CASE("heuristic: the same problem gets the same configuration, a defaulted head_dim_v too") {
  AttentionProblem p;
  p.head_dim = 96;
  p.seqlen_q = p.seqlen_k = 1000;
  const KernelConfig config = heuristic(p, *find_arch("sm_90a")).config;
  CHECK(heuristic(p, *find_arch("sm_90a")).config == config);
  CHECK(heuristic(p.normalized(), *find_arch("sm_90a")).config == config);
}
