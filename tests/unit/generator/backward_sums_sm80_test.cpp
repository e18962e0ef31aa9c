// The fused backward on mma.sync: what it computes, its resources on an SM and in the workspace, and when it
// is chosen.
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <planning/backward.h>

#include <cstdint>
#include <string>
#include <templates/attention/common/params.cuh>
#include <vector>

using namespace fa2;

namespace {

AttentionTraits traits(int head_dim, int head_dim_v) {
  return traits_of({{.head_dim = head_dim, .head_dim_v = head_dim_v}, {}});
}

/// Returns the rule that `config` breaks; empty if it is valid.
std::string broken(const std::string& config, const AttentionTraits& of, const char* arch = "sm_80") {
  return why_rejected({of, parse_config("kernel=backward_sm80," + config), *find_arch(arch)}).value_or("");
}
std::string broken(const std::string& config, int head_dim, const char* arch = "sm_80") {
  return broken(config, traits(head_dim, head_dim), arch);
}

int shared(const std::string& config, int head_dim, int head_dim_v) {
  return shared_bytes(traits(head_dim, head_dim_v), parse_config("kernel=backward_sm80," + config));
}

PlannedProblem problem_of(int head_dim, RowAlignment alignment = RowAlignment::bytes16) {
  return PlannedProblem({.head_dim = head_dim,
                         .mask = MaskKind::causal_bottom_right,
                         .batch = 2,
                         .heads_q = 12,
                         .heads_kv = 4,
                         .seqlen_q = 1000,
                         .seqlen_k = 3000},
                        {alignment})
      .normalized();
}

/// Returns the first choice.
KernelConfig guess(const PlannedProblem& problem, const char* arch) {
  const auto choices = heuristic_choices(problem, *find_arch(arch), KernelPass::dq_dk_dv);
  REQUIRE_FALSE(choices.empty());
  return choices[0].config;
}

std::string constants_of(const KernelConfig& config, const char* arch) {
  return render({traits(128, 128), config, *find_arch(arch)}).headers.front().text;
}

}  // namespace

TEST_CASE("fused backward on mma.sync: its rules") {
  const std::string whole = "tile_m=64,warps=4,tile_n=32,split_gradients=0";
  CHECK(broken("stages=1", 128) == "");
  CHECK(broken(whole, 128) == "");
  CHECK(broken("tile_m=96,warps=4,split_gradients=0", 64) ==
        "tile_m = 96 is no multiple of 16 * warps = 64: every warp owns whole mma tiles");
  CHECK(broken("tile_m=96", 64) ==
        "tile_m = 96 is no multiple of 8 * warps = 64: every two warps own whole mma tiles");
  CHECK(broken("tile_m=40,warps=5", 64) == "warps = 5, must be even with split_gradients = 1");
  CHECK(broken("split_gradients=2", 64).starts_with("split_gradients = 2, must be 0..1"));
  CHECK(broken("tile_n=40", 64) == "tile_n = 40 is no multiple of 16");
  CHECK(broken("pingpong=1", 64) == "pingpong = 1, must be 0 for backward_sm80");
  AttentionTraits packed = traits(128, 128);
  packed.varlen = true;
  CHECK(broken("stages=1", packed) ==
        "varlen = true, must be false: dQ of packed sequences is not accumulated yet");
  CHECK(why_rejected({packed, default_config(KernelId::backward_convert_sm80), *find_arch("sm_80")}) ==
        "varlen = true, must be false: dQ of packed sequences is not accumulated yet");
  CHECK(why_rejected({traits(64, 64), parse_config("kernel=backward_convert_sm80,tile_m=128"),
                      *find_arch("sm_80")}) == "tile_m = 128, must be 16 * warps = 64");
}

TEST_CASE("fused backward on mma.sync: a config whose block does not fit an SM is rejected") {
  CHECK(broken("tile_m=128,tile_n=64", 256).find("registers a thread, 255 are available") !=
        std::string::npos);
  CHECK(broken("tile_m=64,warps=4,tile_n=32,split_gradients=0", 256).find("registers a thread") !=
        std::string::npos);
  const std::string large = "tile_m=128,tile_n=32,stages=2";
  CHECK(broken(large, 128) == "");
  CHECK(broken(large, 128, "sm_86") == "needs 115200 bytes of shared memory, sm_86 has 101376 per block");
}

TEST_CASE("fused backward on mma.sync: shared memory of hand-computed cases") {
  // K and V, stages of Q and dO with two floats per query, two buffers for dS.
  CHECK(shared("tile_m=128,tile_n=64,stages=2", 64, 64) ==
        2 * 128 * 64 * 2 + 2 * (2 * 64 * 64 * 2 + 8 * 64) + 2 * 128 * 64 * 2);
  // 72 columns take 80 and 40 take 48.
  CHECK(shared("tile_m=64,tile_n=32,stages=1", 72, 40) ==
        64 * (80 + 48) * 2 + (32 * (80 + 48) * 2 + 8 * 32) + 2 * 64 * 32 * 2);
  CHECK(shared_bytes(traits(72, 40), default_config(KernelId::backward_convert_sm80)) == 64 * 80 * 2);
}

TEST_CASE("fused backward on mma.sync: the default computes every head dim on every GPU") {
  for (const Arch& arch : known_archs()) {
    for (int dim = 8; dim <= 256; dim += 8) {
      CHECK(why_rejected({traits(dim, dim), default_config(KernelId::backward_sm80), arch}).value_or("") ==
            "");
      CHECK(why_rejected({traits(dim, dim), default_config(KernelId::backward_convert_sm80), arch})
                .value_or("") == "");
    }
  }
}

TEST_CASE(
    "fused backward on mma.sync: the heuristic chooses it for every head dim, on Hopper if wgmma cannot "
    "serve") {
  for (int dim = 8; dim <= 256; dim += 8) {
    for (const Arch& arch : known_archs()) {
      const KernelConfig config = guess(problem_of(dim), std::string(arch.name).c_str());
      CHECK((config.kernel == KernelId::backward_sm90) == (arch.compute_capability == 90));
      CHECK(why_rejected(problem_of(dim), config, arch).value_or("") == "");
    }
    for (const RowAlignment alignment : {RowAlignment::element, RowAlignment::bytes16_any_order})
      CHECK(guess(problem_of(dim, alignment), "sm_90a").kernel == KernelId::backward_sm80);
  }
  PlannedProblem packed = problem_of(64);
  packed.varlen = true;
  CHECK(heuristic_choices(packed, *find_arch("sm_80"), KernelPass::dq_dk_dv).empty());
}

TEST_CASE("fused backward on mma.sync: a second stage if it fits, and fewer keys if registers are few") {
  CHECK(guess(problem_of(64), "sm_80") ==
        parse_config("kernel=backward_sm80,tile_m=128,tile_n=64,warps=8,stages=2,split_gradients=1"));
  CHECK(guess(problem_of(128), "sm_80") ==
        parse_config("kernel=backward_sm80,tile_m=128,tile_n=32,warps=8,stages=2,split_gradients=1"));
  CHECK(guess(problem_of(128), "sm_86") ==
        parse_config("kernel=backward_sm80,tile_m=128,tile_n=32,warps=8,stages=1,split_gradients=1"));
  CHECK(guess(problem_of(256), "sm_80") ==
        parse_config("kernel=backward_sm80,tile_m=64,tile_n=32,warps=8,stages=2,split_gradients=1"));
  CHECK(guess(problem_of(256), "sm_86") ==
        parse_config("kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,stages=1,split_gradients=1"));
}

TEST_CASE(
    "fused backward on mma.sync: red adds four floats if a GPU can, and the convert kernel reads the same "
    "layout") {
  for (const KernelConfig& config :
       {default_config(KernelId::backward_sm80), default_config(KernelId::backward_convert_sm80)}) {
    CHECK(constants_of(config, "sm_89").find("int adds_four = 0;") != std::string::npos);
    CHECK(constants_of(config, "sm_90a").find("int adds_four = 1;") != std::string::npos);
    CHECK(constants_of(config, "sm_120").find("int adds_four = 1;") != std::string::npos);
  }
  CHECK(conversion_of(default_config(KernelId::backward_sm80)).config ==
        default_config(KernelId::backward_convert_sm80));
}

TEST_CASE(
    "fused backward on mma.sync: one block per key tile, accumulators of whole query tiles, heads that L2 "
    "holds") {
  const PlannedProblem p = problem_of(64);
  const KernelConfig config = parse_config("kernel=backward_sm80,tile_m=128,tile_n=48,split_gradients=1");
  const BackwardScratch scratch = scratch_for(p, config, 0);
  CHECK(scratch.statistic_rows == 1008);
  CHECK(scratch.sum_cols == 64);
  const Step step = backward_step(p, config, nullptr, scratch);
  CHECK(step.shape.grid == 24 * 8);  // tiles of 3000 keys, heads of K and V
  CHECK(step.scratch.access == Access::read_write);
  const BackwardParams& params = step.constants.as<BackwardParams>();
  CHECK(params.statistic_rows == 1008);
  CHECK(params.statistic_count == scratch.statistics(p));
  // Q, dO and accumulators of a group take 3 * 1000 * (6 + 2) * 64 bytes. 16 MB would hold ten groups; there
  // are eight.
  CHECK(params.sections.heads[0].value == 8);
  PlannedProblem longer = p;
  longer.seqlen_q = longer.seqlen_k = 8192;
  CHECK(backward_step(longer, config, nullptr, scratch)
            .constants.as<BackwardParams>()
            .sections.heads[0]
            .value == 1);
  const Step conversion = backward_step(p, default_config(KernelId::backward_convert_sm80), nullptr, scratch);
  CHECK(conversion.shape.grid == 16 * 24);  // tiles of 1000 queries, heads
  CHECK(conversion.scratch.access == Access::read);
}
