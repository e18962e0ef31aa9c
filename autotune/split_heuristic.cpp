#include <autotune/heuristic.h>
#include <autotune/split_heuristic.h>
#include <generator/config_space.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/forward_split.h>
#include <generator/kernels/rules.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cstdint>

namespace fa2 {
namespace {

// Bytes of keys and values (docs/kernel-notes.md): few go to as many warps as there may be, and beyond little the cost of
// beginning does not count beside reading.
constexpr double kFew = 48 << 20, kLittle = 96 << 20;

/// Returns the bytes of the keys and values that some query sees.
double bytes_read(const PlannedProblem& p) {
  const double rows =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) * static_cast<double>(visible_keys(p));
  return rows * (p.head_dim + p.head_dim_v) * 2;
}

/// With as many of the warps as leave room for two slots each.
KernelConfig split_config(const AttentionTraits& traits, const Arch& arch, int tile_m, int tile_n,
                          int warps) {
  const bool is_small = std::max(traits.head_dim, traits.head_dim_v) <= 128 && tile_m == 16;
  KernelConfig c{.mainloop = kForwardSplit.mainloop,
                 .tile_m = tile_m,
                 .tile_n = tile_n,
                 .warps = warps,
                 .stages = 2,
                 .q_in_registers = is_small && traits.row_alignment != RowAlignment::element};
  const auto fits = [&] { return SharedMemoryNeed{arch, shared_bytes(traits, c), 1}.fits(); };
  while (c.warps > 1 && !fits()) c.warps /= 2;
  c.stages = forward_split::most_stages(traits, c, arch);
  return c;
}

}  // namespace

std::int64_t some_keys(const AttentionProblem& p) {
  const int dim_v = p.head_dim_v > 0 ? p.head_dim_v : p.head_dim;
  return static_cast<std::int64_t>((kFew + kLittle) / 2) / (2 * (p.head_dim + dim_v));
}

std::vector<KernelConfig> split_configs(const PlannedProblem& p, const AttentionTraits& traits,
                                        const Arch& arch) {
  // Beside main loop 90, whose tiles have 64 rows, for few of them alone.
  const int most_rows = kForwardSm90.runs_on(arch) ? 16 : kMostSplitRows;
  const std::int64_t rows = p.seqlen_q * packed_heads(p, kMostSplitRows);
  if (rows > most_rows) return {};
  // Two tiles of 16 rows read keys twice, but registers hold no more of wide rows.
  const bool is_wide = std::max(traits.head_dim, traits.head_dim_v) > 128;
  const int tile_m = rows <= 16 || is_wide ? 16 : 32;
  const KernelConfig many = split_config(traits, arch, tile_m, 16, tile_m == 16 ? 8 : 4);
  const KernelConfig fewer = split_config(traits, arch, tile_m, 32, 4);
  KernelConfig safe = split_config(traits, arch, 16, 16, 4);
  safe.q_in_registers = 0;
  if (tile_m == 32 || bytes_read(p) <= kFew || fewer.warps < 4) return {many, safe};
  return {fewer, many, safe};
}

bool reads_little(const PlannedProblem& problem) {
  return bytes_read(problem) <= kLittle;
}

}  // namespace fa2
