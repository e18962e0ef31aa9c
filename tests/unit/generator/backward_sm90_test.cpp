// The fused backward on wgmma: what it computes, its resources on an SM and in the workspace, and when it is
// chosen.
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/backward_sm90.h>
#include <operation/operands/workspace.h>
#include <planning/backward.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

const Arch& hopper() {
  return *find_arch("sm_90a");
}

AttentionTraits traits(int head_dim, int head_dim_v, RowAlignment alignment = RowAlignment::bytes16) {
  return traits_of({{.head_dim = head_dim, .head_dim_v = head_dim_v}, {alignment}});
}

/// Returns the rule that `config` breaks; empty if it is valid.
std::string broken(const std::string& config, const AttentionTraits& of, const Arch& arch = hopper()) {
  return why_rejected({of, parse_config(config), arch}).value_or("");
}
std::string broken(const std::string& config, int head_dim) {
  return broken(config, traits(head_dim, head_dim));
}

int shared(const std::string& config, int head_dim, int head_dim_v) {
  return shared_bytes(traits(head_dim, head_dim_v), parse_config("kernel=backward_sm90," + config));
}

std::vector<KernelConfig> valid_configs(int head_dim, int head_dim_v) {
  std::vector<KernelConfig> valid =
      config_space(traits(head_dim, head_dim_v), hopper(), KernelPass::dq_dk_dv).valid;
  std::erase_if(valid, [](const KernelConfig& config) { return config.kernel != KernelId::backward_sm90; });
  return valid;
}

PlannedProblem problem_of(int head_dim, int head_dim_v, RowAlignment alignment = RowAlignment::bytes16) {
  return PlannedProblem({.head_dim = head_dim,
                         .head_dim_v = head_dim_v,
                         .batch = 2,
                         .heads_q = 12,
                         .heads_kv = 4,
                         .seqlen_q = 1000,
                         .seqlen_k = 3000},
                        {alignment})
      .normalized();
}

bool is_computed(const PlannedProblem& problem, KernelPass pass, const Arch& arch) {
  return !heuristic_choices(problem, arch, pass).empty();
}

/// Returns whether the fused kernel on wgmma is the only choice.
bool sums_on_wgmma(const PlannedProblem& problem, const Arch& arch) {
  const auto choices = heuristic_choices(problem, arch, KernelPass::dq_dk_dv);
  return !choices.empty() && std::ranges::all_of(choices, [](const HeuristicChoice& choice) {
    return choice.config.kernel == KernelId::backward_sm90;
  });
}

constexpr KernelPass kEveryPass[] = {KernelPass::delta,     KernelPass::dq, KernelPass::dk_dv,
                                     KernelPass::dk,        KernelPass::dv, KernelPass::dq_dk_dv,
                                     KernelPass::dq_convert};

/// Returns the passes that have a kernel if `pinned` is pinned.
std::vector<KernelPass> passes_beside(const std::string& pinned) {
  ChoiceSettings settings;
  settings.tune = TuneMode::off;
  settings.pinned = parse_config(pinned);
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  const ConfigChooser chooser(settings, store);
  std::vector<KernelPass> passes;
  for (const KernelPass pass : kEveryPass)
    if (chooser.has_kernel(problem_of(128, 128), {hopper(), "H200", 132}, pass)) passes.push_back(pass);
  return passes;
}

}  // namespace

TEST_CASE("backward on wgmma: runs on Hopper, and its rules") {
  CHECK(broken("kernel=backward_sm90", 128) == "");
  CHECK(broken("kernel=backward_sm90", traits(128, 128), *find_arch("interpreter")) == "");
  for (const char* name : {"sm_80", "sm_100", "sm_120"})
    CHECK(broken("kernel=backward_sm90", traits(128, 128), *find_arch(name))
              .starts_with("backward_sm90 does not run on " + std::string(name)));
  CHECK(
      broken("kernel=backward_sm90,warps=6,tile_m=96", 128).find("warps = 6 are no whole warpgroups of 4") !=
      std::string::npos);
  CHECK(broken("kernel=backward_sm90,tile_m=96", 128) ==
        "tile_m = 96, must be 16 * warps = 128, or 64 with warps = 8");
  CHECK(broken("kernel=backward_sm90,tile_m=64", 128) == "");
  CHECK(broken("kernel=backward_sm90,tile_m=64,tile_n=128", 64) == "");
  CHECK(broken("kernel=backward_sm90,pingpong=1,stages=1", 128).starts_with("pingpong = 1 needs stages = 2"));
  AttentionTraits softcap = traits(64, 64);
  softcap.softcap = true;
  CHECK(broken("kernel=backward_sm90,tile_n=128", softcap)
            .starts_with("128 queries a step leave no registers"));
  CHECK(broken("kernel=backward_sm90,tile_m=64,tile_n=128", softcap) == "");
  AttentionTraits dropout = traits(64, 64);
  dropout.dropout = true;
  CHECK(broken("kernel=backward_sm90,tile_n=128", dropout) ==
        "the numbers of dropout find registers with head dims from 120 on, both");
  CHECK(broken("kernel=backward_sm90,tile_m=64,tile_n=128", dropout) == "");
  dropout = traits(128, 128);
  dropout.dropout = true;
  CHECK(broken("kernel=backward_sm90", dropout) == "");
  dropout.alibi = true;
  CHECK(broken("kernel=backward_sm90", dropout)
            .starts_with("windows, chunks, softcap and ALiBi leave no registers"));
  dropout.alibi = false, dropout.attention_chunk = 1;
  CHECK(broken("kernel=backward_sm90", dropout).starts_with("windows, chunks, softcap and ALiBi leave"));
  CHECK(broken("kernel=backward_sm90,tile_m=64", dropout) == "");
  CHECK(broken("kernel=backward_sm90,tile_m=64,pingpong=1", 128)
            .starts_with("pingpong needs two warpgroups that do the same"));
  CHECK(broken("kernel=backward_sm90,warps=4,tile_m=64", 128) ==
        "warps = 4, must be 8 with head dims above 64");
  CHECK(broken("kernel=backward_sm90,stages=5", 128).starts_with("stages = 5, must be 1..4"));
  CHECK(broken("kernel=backward_sm90,ctas_per_sm=2", 128).starts_with("ctas_per_sm = 2, must be 1..1"));
  CHECK(broken("kernel=backward_sm90,tile_n=72", 128).starts_with("tile_n = 72 is no multiple of 16"));
  CHECK(broken("kernel=backward_sm90,overlap=1", 128) == "overlap = 1, must be 0 for backward_sm90");
}

TEST_CASE(
    "backward on wgmma: rows must suit TMA, wide ones need split gradients, packed ones more registers") {
  CHECK(broken("kernel=backward_sm90", traits(128, 136)) ==
        "head_dim_v = 136 beside head_dim = 128 needs tile_m = 64 with warps = 8");
  CHECK(broken("kernel=backward_sm90,tile_m=64", traits(128, 136)) == "");
  CHECK(broken("kernel=backward_sm90", traits(136, 128)) == "");
  CHECK(broken("kernel=backward_sm90,tile_m=64", traits(136, 136))
            .starts_with("tile_m = 64, must be 128 with warps = 8 and head_dim = 136: two blocks share it"));
  for (const RowAlignment alignment : {RowAlignment::element, RowAlignment::bytes16_any_order})
    CHECK(broken("kernel=backward_sm90", traits(128, 128, alignment)) ==
          "row_alignment = " + std::string(to_string(alignment)) + ", must be bytes16: TMA loads the rows");
  AttentionTraits packed = traits(128, 128);
  packed.varlen = true;
  CHECK(broken("kernel=backward_sm90", packed) == "");
  CHECK(broken("kernel=backward_convert_sm90", packed) == "");
  packed = traits(64, 64);
  packed.varlen = true;
  CHECK(broken("kernel=backward_sm90,tile_n=128", packed) ==
        "128 queries a step leave no registers for packed sequences");
  CHECK(broken("kernel=backward_sm90,tile_m=64,tile_n=128", packed) == "");
}

TEST_CASE("backward on wgmma: a dQ accumulator of a warpgroup is 64 queries, or its transpose") {
  for (const int head_dim : {8, 40, 64}) {
    CHECK(broken("kernel=backward_sm90,tile_n=128", head_dim) == "");
    CHECK(broken("kernel=backward_sm90,tile_n=64", head_dim) ==
          "64 queries, must be 16 * warps = 128 with head dims up to 64");
    CHECK(broken("kernel=backward_convert_sm90,tile_m=64", head_dim) ==
          "64 queries, must be 16 * warps = 128 with head dims up to 64");
  }
  // Or all 64 queries of alternate iterations.
  const std::string alternating = "kernel=backward_sm90,tile_n=64,stages=3,pingpong=2";
  CHECK(broken(alternating, 64) == "");
  CHECK(broken("kernel=backward_convert_sm90,tile_m=64,warps=4", 64) == "");
  CHECK(broken("kernel=backward_sm90,tile_n=128,stages=3,pingpong=2", 64)
            .starts_with("128 queries, must be 64 with pingpong = 2"));
  CHECK(broken(alternating, 72).starts_with("pingpong = 2 alternates dQ of up to 64 columns, in no order"));
  CHECK(broken("kernel=backward_ordered_sm90,tile_n=64,stages=3,pingpong=2", 64)
            .starts_with("pingpong = 2 alternates dQ of up to 64 columns, in no order"));
  for (const int head_dim : {72, 96, 128}) {
    CHECK(broken("kernel=backward_sm90,tile_n=64", head_dim) == "");
    CHECK(broken("kernel=backward_convert_sm90,tile_m=48", head_dim) == "");
    CHECK(broken("kernel=backward_convert_sm90,warps=4", head_dim) ==
          "warps = 4, must be 8 with head dims above 64");
  }
}

TEST_CASE("backward on wgmma: dQ of up to 64 columns may be added in bulk") {
  const std::string bulk = "kernel=backward_sm90,bulk_sums=1,";
  CHECK(broken(bulk + "tile_n=128,pingpong=1", 64) == "");
  CHECK(broken(bulk + "tile_n=64,stages=3,pingpong=2", 40) == "");
  const std::string rule = "bulk_sums adds dQ of up to 64 columns, by warps = 8, in no order";
  CHECK(broken(bulk + "tile_n=64", 72).starts_with(rule));
  CHECK(broken(bulk + "tile_m=64,tile_n=64,warps=4", 64).starts_with(rule));
  CHECK(broken("kernel=backward_ordered_sm90,bulk_sums=1,tile_n=128", 64).starts_with(rule));
  // Float32 for 128 queries of 64 columns, of both warpgroups together or of each; 40 columns take 48.
  const auto more = [](const std::string& config, int head_dim) {
    return shared("bulk_sums=1," + config, head_dim, head_dim) - shared(config, head_dim, head_dim);
  };
  CHECK(more("tile_n=128,pingpong=1", 64) == 128 * 64 * 4);
  CHECK(more("tile_n=64,stages=3,pingpong=2", 64) == 2 * 64 * 64 * 4);
  CHECK(more("tile_n=128", 40) == 128 * 48 * 4);
}

TEST_CASE("backward on wgmma: what a transposed product reads behind the keys is shared memory") {
  // 64 * 2 bytes per missing column, of which there are 48; V of a warpgroup's 64 keys and of the other's.
  CHECK(broken("kernel=backward_sm90", traits(72, 8)) == "head_dim_v = 8 is too small beside head_dim = 72");
  CHECK(broken("kernel=backward_sm90", traits(72, 24)) == "");
  CHECK(broken("kernel=backward_sm90", traits(120, 8)) == "");
  CHECK(broken("kernel=backward_sm90,tile_n=128", traits(64, 8)) == "");
}

TEST_CASE("backward on wgmma: a config whose block does not fit an SM is rejected") {
  CHECK(broken("kernel=backward_sm90,tile_n=128", 128).find("registers a thread, a consumer warp has 240") !=
        std::string::npos);
  CHECK(broken("kernel=backward_sm90,tile_n=80,stages=4", 128).find("bytes of shared memory, sm_90a has") !=
        std::string::npos);
}

TEST_CASE("backward on wgmma: shared memory of hand-computed cases") {
  // K and V of 128 keys; two stages of 64 queries with two floats each; two buffers for dS; 4 * 2 + 6
  // mbarriers.
  CHECK(shared("tile_n=64,stages=2", 128, 128) ==
        2 * 128 * 128 * 2 + 2 * (2 * 64 * 128 * 2 + 8 * 64) + 2 * 64 * 128 * 2 + 8 * 14);
  CHECK(shared("tile_n=128,stages=1", 64, 64) ==
        2 * 128 * 64 * 2 + (2 * 128 * 64 * 2 + 8 * 128) + 2 * 128 * 128 * 2 + 8 * 10);
  // 72 columns take 80 and 40 take 48. 48 queries of 80 columns are 7680 bytes, of 48 columns 4608; both are
  // rounded up.
  CHECK(shared("tile_n=48,stages=3", 72, 40) ==
        128 * (80 + 48) * 2 + 3 * (8192 + 5120 + 8 * 48) + 2 * 48 * 128 * 2 + 8 * 18);
  CHECK(shared_bytes(traits(72, 40), parse_config("kernel=backward_convert_sm90,tile_m=48")) == 48 * 80 * 2);
}

TEST_CASE("backward on wgmma: two blocks share a key tile of wide heads") {
  const KernelConfig config = default_config(KernelId::backward_sm90);
  for (int head_dim = 8; head_dim <= 256; head_dim += 8)
    CHECK(kind_of(config).cluster(traits(head_dim, 64)) == (head_dim > 128 ? 2 : 1));
  CHECK(kind_of(config).cluster(traits(64, 256)) == 1);
  // K and V of 64 keys; stages of 64 queries with a float each, of which dO has one; dS and P; half of the other block's K,
  // and its dS; mbarriers.
  CHECK(shared("tile_n=64,stages=2", 256, 256) == 2 * 64 * 256 * 2 + 3 * (64 * 256 * 2 + 4 * 64) +
                                                      4 * 64 * 64 * 2 + 64 * 128 * 2 + 2 * 64 * 64 * 2 +
                                                      8 * 23);
  // Narrower heads leave memory for two stages of dO.
  CHECK(shared("tile_n=64,stages=2", 192, 192) == 2 * 64 * 192 * 2 + 4 * (64 * 192 * 2 + 4 * 64) +
                                                      4 * 64 * 64 * 2 + 64 * 128 * 2 + 2 * 64 * 64 * 2 +
                                                      8 * 25);
}

TEST_CASE("backward on wgmma: the convert kernel has the tiles of the accumulators") {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    const std::vector<KernelConfig> configs = valid_configs(head_dim, head_dim);
    CHECK_FALSE(configs.empty());
    for (const KernelConfig& config : configs) {
      const KernelConfig convert = kind_of(config).conversion(config);
      CHECK(convert.kernel == KernelId::backward_convert_sm90);
      CHECK(convert.tile_m == config.tile_n);
      CHECK(why_rejected({traits(head_dim, head_dim), convert, hopper()}).value_or("") == "");
      CHECK(conversion_of(config).config == convert);
    }
  }
}

TEST_CASE("backward on wgmma: scratch is delta, LSE and float32 accumulators of whole tiles") {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    for (const KernelConfig& config : valid_configs(head_dim, head_dim)) {
      const PlannedProblem p = problem_of(head_dim, head_dim);
      INFO(to_string(p), ", ", to_string(config));
      const BackwardScratch scratch = scratch_for(p, config, 0);
      CHECK(scratch.statistic_rows % config.tile_n == 0);
      CHECK(scratch.statistic_rows >= p.seqlen_q);
      CHECK(scratch.statistic_rows < p.seqlen_q + config.tile_n);
      CHECK(scratch.sum_cols == (head_dim > 128 ? 256 : head_dim > 64 ? 128 : (head_dim + 15) / 16 * 16));
      const std::int64_t rows = p.batch * p.heads_q * scratch.statistic_rows;
      CHECK(scratch.statistics(p) >= rows);
      CHECK(scratch.statistics(p) < rows + kWorkspaceAlignment / 4);
      const std::size_t bytes = scratch.bytes(p);
      CHECK(bytes == static_cast<std::size_t>(4 * (3 * scratch.statistics(p) + rows * scratch.sum_cols)));
      CHECK(bytes % kWorkspaceAlignment == 0);
      const std::int64_t dq = 4 * p.batch * p.heads_q * p.seqlen_q * head_dim;
      if (head_dim >= 64) CHECK(static_cast<std::int64_t>(bytes) <= 2 * dq + 8 * scratch.statistics(p));
    }
  }
}

TEST_CASE("backward on wgmma: each packed sequence has its own tiles in the scratch") {
  PlannedProblem p = problem_of(128, 128);
  p.varlen = true;
  const KernelConfig config = default_config(KernelId::backward_sm90);  // tiles of 64
  CHECK(scratch_for(p, config, 0).statistic_rows == 1024);
  CHECK(scratch_for(p, config, 0).bytes(p) == 4 * 2 * 12 * 1024 * (3 + 128));
  p.batch = 5, p.total_q = 1000;
  CHECK(scratch_for(p, config, 0).sum_tile == 64);
  CHECK(scratch_for(p, config, 0).statistic_rows == (1000 / 64 + 5) * 64);
  CHECK(scratch_for(p, config, 0).bytes(p) == 4 * 12 * 1280 * (3 + 128));
  p.heads_q = 128, p.batch = 1 << 12, p.total_q = std::int64_t{1} << 30;  // beyond 32 bits
  CHECK(scratch_for(p, config, 0).bytes(p) == 4 * 128 * ((std::size_t{1} << 30) + (64 << 12)) * (3 + 128));
}

TEST_CASE(
    "backward on wgmma: scratch without rows is empty, and scratch with only delta is as large as LSE") {
  AttentionProblem p = problem_of(128, 128);
  CHECK(scratch_for(p).bytes(p) == 4 * 2 * 12 * 1000);
  p.seqlen_q = 0;
  CHECK(scratch_for(p).bytes(p) == 0);
  CHECK(scratch_for(p, default_config(KernelId::backward_sm90), 0).bytes(p) == 0);
}

TEST_CASE("backward on wgmma: the heuristic chooses it for every head dim, on Hopper and the interpreter") {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    const PlannedProblem p = problem_of(head_dim, head_dim);
    INFO(to_string(p));
    for (const char* name : {"sm_90a", "interpreter"}) CHECK(sums_on_wgmma(p, *find_arch(name)));
    for (const char* name : {"sm_80", "sm_100"}) CHECK_FALSE(sums_on_wgmma(p, *find_arch(name)));
    // The separate kernels, which are bitwise deterministic, exist everywhere.
    CHECK(is_computed(p, KernelPass::dq, hopper()));
    CHECK(is_computed(p, KernelPass::dk, hopper()));
  }
  for (const RowAlignment alignment : {RowAlignment::element, RowAlignment::bytes16_any_order})
    CHECK_FALSE(sums_on_wgmma(problem_of(128, 128, alignment), hopper()));
}

TEST_CASE("backward on wgmma: each warpgroup owns one gradient if registers do not hold both") {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    for (bool AttentionProblem::*variant :
         {&AttentionProblem::dropout, &AttentionProblem::softcap, &AttentionProblem::varlen}) {
      PlannedProblem p = problem_of(head_dim, head_dim);
      p.*variant = true;
      INFO(to_string(p));
      for (const KernelPass pass : {KernelPass::dq_dk_dv, KernelPass::ordered_dq_dk_dv}) {
        const auto choices = heuristic_choices(p, hopper(), pass);
        REQUIRE_FALSE(choices.empty());
        CHECK(pass_of(choices[0].config) == pass);
        CHECK(choices.back().config.tile_m == (head_dim > 128 ? 128 : 64));
        // Up to 64 columns warpgroups compute dQ of alternate steps, unless dQ is accumulated in order.
        const bool alternates = head_dim <= 64 && pass == KernelPass::dq_dk_dv;
        CHECK((choices[0].config.pingpong == 2) == alternates);
        if (head_dim <= 64) CHECK(choices.size() == (alternates ? 2 : 1));
      }
    }
  }
}

TEST_CASE(
    "backward on wgmma: it does not run if a kernel for a part of it is pinned; it does if its own is") {
  using enum KernelPass;
  const std::vector<KernelPass> all = {delta, dq, dk_dv, dk, dv, dq_dk_dv};
  const std::vector<KernelPass> without = {delta, dq, dk_dv, dk, dv};
  const std::vector<KernelPass> halves = {delta, dq, dk, dv};
  CHECK(passes_beside("kernel=forward_sm80") == all);
  CHECK(passes_beside("kernel=backward_delta") == all);
  CHECK(passes_beside("kernel=backward_dq_sm80") == without);
  CHECK(passes_beside("kernel=backward_dk_dv_sm80") == without);
  CHECK(passes_beside("kernel=backward_dk_sm80") == halves);
  CHECK(passes_beside("kernel=backward_dv_sm80") == halves);
  CHECK(passes_beside("kernel=backward_sm90,stages=1") == all);
}
