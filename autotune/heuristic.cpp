// A table of configurations by head dim, from sweeps on an H100 (docs/kernel-notes.md); other GPUs get what
// fits them.
#include <autotune/heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>

#include <algorithm>
#include <optional>
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
  return 2 * (shared_bytes(traits, c) + arch.shared_reserved) <= arch.shared_per_sm;
}

/// Best first; the first that is valid and leaves room for two blocks wins, else the first that is valid.
std::vector<KernelConfig> preferences(const AttentionProblem& p, int head_dim, const Arch& arch) {
  const bool causal = p.mask != MaskKind::none;
  // Copying element by element takes registers too, and is slow whatever the tile.
  if (p.row_alignment == RowAlignment::element) return {config(64, 32, 4, 1)};
  if (p.seqlen_q <= 64 || (causal && head_dim <= 64 && p.seqlen_q <= 512)) {
    return {config(64, 64, 4, 2), config(64, 64, 4, 1), config(64, 32, 4, 1)};
  }
  if (head_dim <= 64) return {config(128, 64, 4, 2, 1), config(128, 64, 4, 1)};
  if (head_dim <= 96) return {config(128, 48, 4, 3), config(128, 48, 4, 2), config(64, 64, 4, 1)};
  // The widest tiles that ptxas fits into 255 registers: on Blackwell, for two head dims, and for 112 columns
  // it needs more.
  const bool tight = arch.compute_capability >= 100 || p.head_dim != p.head_dim_v;
  if (head_dim <= 128 && tight) return {config(64, 64, 4, 2), config(64, 64, 4, 1)};
  if (head_dim <= 112) return {config(128, 32, 4, 3), config(128, 32, 4, 2), config(64, 64, 4, 1)};
  if (head_dim <= 128) return {config(128, 48, 4, 3), config(128, 48, 4, 2), config(64, 64, 4, 1)};
  return {config(64, 80, 4, 1), config(64, 64, 4, 1), config(64, 48, 4, 1), config(64, 32, 4, 1)};
}

}  // namespace

HeuristicChoice heuristic(const AttentionProblem& problem, const Arch& arch, int /*sm_count*/) {
  const AttentionTraits traits = traits_of(problem);
  const int head_dim = std::max(traits.head_dim, traits.head_dim_v);
  const auto choices = preferences(problem.normalized(), head_dim, arch);
  std::optional<KernelConfig> valid;
  for (const KernelConfig& choice : choices) {
    if (why_rejected({traits, choice, arch})) continue;
    if (!valid) valid = choice;
    if (!two_fit(traits, choice, arch)) continue;
    valid = choice;
    break;
  }
  if (!valid) {
    throw Error(ErrorCode::internal,
                fmt::format("no heuristic configuration fits {} on {}", to_string(traits), arch.name));
  }
  return {*valid, fmt::format("table entry for head dims around {}, seqlen_q {}, on {}", head_dim,
                              problem.seqlen_q, arch.name)};
}

}  // namespace fa2
