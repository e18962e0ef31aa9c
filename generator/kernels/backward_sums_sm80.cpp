// The fused backward kernel on mma.sync, fed by cp.async, and the kernel that rounds its dQ.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>

#include <algorithm>
#include <cstdint>

namespace fa2 {
namespace {

constexpr int kMostWarps = 16;

/// Counts K and V of a block, slots of Q and dO with two floats per query, and two buffers for dS.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int scores = c.tile_m * c.tile_n * element_bytes(traits);
  return c.tile_m * key_value_row_bytes(traits) + c.stages * c.tile_n * (query_output_row_bytes(traits) + 8) +
         2 * scores;
}

/// Returns the m16 tiles of keys whose dK and dV, or one of them, a warp owns.
int m_tiles(const KernelConfig& c) {
  return c.split_gradients == 1 ? c.tile_m / (8 * c.warps) : mma_rules::m_tiles(c);
}

/// Counts dK, dV, S and dP, or one of each pair. dQ reuses the registers of scores.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndOperands = 48;
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int columns = c.split_gradients == 1 ? std::max(d, dv) + c.tile_n : d + dv + 2 * c.tile_n;
  return m_tiles(c) * columns / 2 + kAddressesAndOperands;
}

void check_traits(const AttentionTraits& traits, BrokenRules& rules) {
  rules.expect(!traits.varlen, "varlen = true, must be false: dQ of packed sequences is not accumulated yet");
  rules.expect(!traits.dropout, "dropout = true, must be false: dQ is not accumulated with dropout yet");
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  if (c.split_gradients == 0) return mma_rules::check_tiles(c, rules);
  rules.expect(c.warps % 2 == 0, "warps = {}, must be even with split_gradients = 1", c.warps);
  const std::int64_t rows = std::int64_t{8} * c.warps;
  rules.expect(c.warps < 2 || c.tile_m % rows == 0,
               "tile_m = {} is no multiple of 8 * warps = {}: every two warps own whole mma tiles", c.tile_m,
               rows);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {16, 32, 48, 64, 128}) {
        for (const int stages : {1, 2}) {
          for (const int split_gradients : {0, 1}) {
            all.push_back({.kernel = KernelId::backward_sm80,
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = warps,
                           .stages = stages,
                           .split_gradients = split_gradients});
          }
        }
      }
    }
  }
  return all;
}

/// Four of eight warps own dV and four dK. Key and query rows are as many as registers hold, with a second stage if it fits.
std::vector<KernelConfig> heuristic(const PlannedProblem& problem, const Arch& arch) {
  const int widest = std::max(problem.head_dim, problem.head_dim_v);
  // Blackwell's kernels need a few registers more.
  const bool is_full = arch.compute_capability >= 100 && problem.alibi &&
                       widest > (problem.window_left || problem.attention_chunk ? 64 : 112);
  const int keys = widest > 128 || is_full ? 64 : 128, queries = widest > 64 || problem.softcap ? 32 : 64;
  std::vector<KernelConfig> configs;
  const auto add = [&](int tile_m, int tile_n, int stages) {
    KernelConfig config = kernels::backward_sm80.default_config;
    config.tile_m = tile_m, config.tile_n = tile_n, config.stages = stages;
    if (std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
  };
  add(keys, queries, 2), add(keys, queries, 1);
  add(64, queries, 2), add(64, queries, 1);
  add(64, 16, 1);
  return configs;
}

/// Returns whether red adds four floats at once.
RenderedConstant adds_four(const Arch& arch) {
  return {"adds_four", arch.compute_capability >= 90};
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  return {{"owns_keys", 1}, {"computes_ds", 1}, {"sums_dq", 1}, adds_four(spec.arch)};
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},       {"tile_n", 16, kMostTile, 16},
                                 {"warps", 1, kMostWarps},        {"stages", 1, 4},
                                 {"ctas_per_sm", 1, kMostBlocks}, {"split_gradients", 0, 1}};
constexpr Tunable kTunablesOfConvert[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 1, kMostWarps}};

}  // namespace

constexpr KernelKind kernels::backward_sm80 = {
    .id = KernelId::backward_sm80,
    .pass = KernelPass::dq_dk_dv,
    .main = "attention/backward/sm80/kernel.cu",
    .entry = "fa2_backward",
    .make_step = backward_sm80_step,
    .section_bytes = 16 << 20,
    .tunables = kTunables,
    .default_config =
        {.kernel = KernelId::backward_sm80, .tile_m = 64, .tile_n = 16, .warps = 8, .split_gradients = 1},
    .supports = check_traits,
    .check = check,
    .check_registers = check_registers,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = heuristic,
    .conversion = [](const KernelConfig&) { return kernels::backward_convert_sm80.default_config; },
    .constants = constants,
    .reads = is_backward_trait_without_lse,
};

constexpr KernelKind kernels::backward_convert_sm80 = {
    .id = KernelId::backward_convert_sm80,
    .pass = KernelPass::dq_convert,
    .main = "attention/backward/sm80/convert.cu",
    .entry = "fa2_backward_convert",
    .make_step = backward_sm80_step,
    .tunables = kTunablesOfConvert,
    .default_config = {.kernel = KernelId::backward_convert_sm80, .tile_m = 64, .warps = 4},
    .supports = check_traits,
    .check =
        [](const KernelSpec& spec, BrokenRules& rules) {
          const KernelConfig& c = spec.config;
          const std::int64_t rows = std::int64_t{16} * c.warps;
          rules.expect(c.tile_m == rows, "tile_m = {}, must be 16 * warps = {}", c.tile_m, rows);
        },
    .shared_bytes = [](const AttentionTraits& traits,
                       const KernelConfig& config) { return config.tile_m * row_bytes(traits, Side::q); },
    .estimated_registers = [](const AttentionTraits& traits,
                              const KernelConfig&) { return padded_dim(traits.head_dim) / 2 + 8; },
    .constants = [](const KernelSpec& spec) { return std::vector<RenderedConstant>{adds_four(spec.arch)}; },
    .reads =
        [](std::string_view trait) {
          return trait == "float32_dq" ||
                 (is_backward_trait_without_lse(trait) && is_backward_trait_without_scores(trait));
        },
};

}  // namespace fa2
