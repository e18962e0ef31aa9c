// A table of configurations by head dim, from sweeps on an H100 (docs/kernel-notes.md); other GPUs get what
// fits them.
#include <autotune/heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/mainloop_rules.h>

#include <algorithm>
#include <vector>

namespace fa2 {

namespace {

KernelConfig config(int tile_m, int tile_n, int warps, int stages, int q_in_registers = 0) {
  KernelConfig c;
  c.tile_m = tile_m;
  c.tile_n = tile_n;
  c.warps = warps;
  c.stages = stages;
  c.q_in_registers = q_in_registers;
  return c;
}

/// Blocks that share an SM hide each other's barriers and softmax: prefer what leaves room for two.
bool two_fit(const AttentionTraits& traits, const KernelConfig& c, const Arch& arch) {
  return shared_memory_fits(arch, shared_bytes(traits, c), 2);
}

/// Main loop 90's `c` with what follows from the problem, and as many slots as fit.
KernelConfig hopper(const AttentionProblem& p, const Arch& arch, KernelConfig c) {
  c.mainloop = 90;
  c.tile_m = 16 * c.warps;
  c.schedule = 2;
  c.skip_masked = p.mask != MaskKind::none;
  c.packed_heads = packed_heads(p, c.tile_m);
  c.stages = sm90::most_stages(traits_of(p), c, arch);
  return c;
}

/// Best first (docs/measurements). Three warpgroups of long sequences hide each other's softmax; of short
/// ones, whose tiles are few blocks long, the beginnings and ends of tiles have to be hidden.
std::vector<KernelConfig> hopper_preferences(const AttentionProblem& p, int head_dim, const Arch& arch) {
  const auto with = [&](int warps, int tile_n, KernelConfig others) {
    others.warps = warps;
    others.tile_n = tile_n;
    return hopper(p, arch, others);
  };
  const KernelConfig safe = with(8, 64, {.q_buffers = 1, .overlap = 1});
  const KernelConfig guessing{.q_buffers = 2, .overlap = 1, .speculative_max = 1};
  const KernelConfig in_turns{.q_buffers = 2, .overlap = 1, .pingpong = 1, .speculative_max = 1};
  if (p.seqlen_q * packed_heads(p, 64) <= 64) {  // one warpgroup's rows
    const KernelConfig two_blocks{.ctas_per_sm = 2, .q_buffers = 1, .overlap = 1, .speculative_max = 1};
    return {with(4, head_dim <= 128 ? 128 : 64, two_blocks), safe};
  }
  if (head_dim <= 64) {
    // Rows that are no whole swizzle of 128 bytes take more registers for addresses.
    const KernelConfig three = with(12, head_dim == 64 ? 128 : 112, in_turns);
    if (p.seqlen_q > 1536) return {three, safe};
    const int tile_n = p.mask == MaskKind::none && p.seqlen_q > 768 ? 80 : 64;
    return {with(8, tile_n, {.ctas_per_sm = 2, .q_buffers = 2, .speculative_max = 1}), three, safe};
  }
  if (head_dim <= 96) return {with(12, 96, in_turns), with(8, 128, guessing), safe};
  if (head_dim <= 128) {
    const bool causal = p.mask != MaskKind::none;
    const KernelConfig wide = with(8, 128, guessing), three = with(12, 80, in_turns);
    if (causal && p.seqlen_q <= 3072) return {with(12, 64, guessing), three, wide, safe};
    if (p.seqlen_q <= 1536) return {wide, three, safe};
    return {three, wide, safe};
  }
  if (head_dim <= 192) return {with(8, 96, {.q_buffers = 1, .overlap = 1, .speculative_max = 1}), safe};
  const KernelConfig narrow = with(8, 48, {.q_buffers = 1, .overlap = 1});
  if (head_dim == 256 && p.seqlen_q > 6144)
    return {with(8, 80, {.q_buffers = 1, .overlap = 1}), safe, narrow};
  return {safe, narrow};
}

/// Best first, whether they are valid or not. The last is small enough for every compiler.
std::vector<KernelConfig> preferences(const AttentionProblem& p, int head_dim, const Arch& arch) {
  const bool causal = p.mask != MaskKind::none;
  // Copying element by element takes registers too, and is slow whatever the tile.
  const KernelConfig small = config(64, 32, 4, 1);
  if (p.row_alignment == RowAlignment::element) return {small};
  if (p.seqlen_q <= 64 || (causal && head_dim <= 64 && p.seqlen_q <= 512)) {
    return {config(64, 64, 4, 2), config(64, 64, 4, 1), small};
  }
  if (head_dim <= 64) return {config(128, 64, 4, 2, 1), config(128, 64, 4, 1), config(64, 64, 4, 1), small};
  if (head_dim <= 96) return {config(128, 48, 4, 3), config(128, 48, 4, 2), config(64, 64, 4, 1), small};
  // The widest tiles that ptxas fits into 255 registers: on Blackwell, for two head dims, and for 112 columns
  // it needs more.
  const bool tight = arch.compute_capability >= 100 || p.head_dim != p.head_dim_v;
  if (head_dim <= 128 && tight) return {config(64, 64, 4, 2), config(64, 64, 4, 1), small};
  if (head_dim <= 112) return {config(128, 32, 4, 3), config(128, 32, 4, 2), config(64, 64, 4, 1), small};
  const int tile_n = causal ? 32 : 48;  // with a mask 48 keys spill
  if (head_dim <= 128)
    return {config(128, tile_n, 4, 3), config(128, tile_n, 4, 2), config(64, 64, 4, 1), small};
  return {config(64, 80, 4, 1), config(64, 64, 4, 1), config(64, 48, 4, 1), small};
}

}  // namespace

std::vector<HeuristicChoice> heuristic_choices(const AttentionProblem& problem, const Arch& arch,
                                               int /*sm_count*/) {
  const AttentionTraits traits = traits_of(problem);
  const int head_dim = std::max(traits.head_dim, traits.head_dim_v);
  std::vector<KernelConfig> configs = preferences(problem.normalized(), head_dim, arch);
  std::stable_partition(configs.begin(), configs.end(),
                        [&](const KernelConfig& c) { return two_fit(traits, c, arch); });
  if (arch.compute_capability == 90 && !arch.interpreted) {
    const std::vector<KernelConfig> better = hopper_preferences(problem.normalized(), head_dim, arch);
    configs.insert(configs.begin(), better.begin(), better.end());
  }
  std::erase_if(configs, [&](const KernelConfig& c) { return why_rejected(problem, c, arch).has_value(); });
  if (configs.empty()) {
    throw Error(ErrorCode::internal,
                fmt::format("no heuristic configuration fits {} on {}", to_string(traits), arch.name));
  }
  std::vector<HeuristicChoice> choices;
  for (const KernelConfig& c : configs) {
    choices.push_back({c, fmt::format("entry {} of the table for head dims around {}, seqlen_q {}, on {}",
                                      choices.size() + 1, head_dim, problem.seqlen_q, arch.name)});
  }
  return choices;
}

int packed_heads(const AttentionProblem& problem, int tile_m) {
  constexpr int kMost = 64;
  const std::int64_t group = problem.heads_q / problem.heads_kv;
  int packed = 1;
  while (packed < kMost && group % (2 * packed) == 0 && problem.seqlen_q * packed < tile_m) packed *= 2;
  return packed;
}

HeuristicChoice heuristic(const AttentionProblem& problem, const Arch& arch, int sm_count) {
  return heuristic_choices(problem, arch, sm_count).front();
}

}  // namespace fa2
