// What both main loops' rules have in common, and the enumeration of what satisfies them.
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/mainloop_rules.h>

#include <limits>

namespace fa2 {
namespace {

std::optional<std::string> broken_shape_rule(const KernelConfig& c) {
  constexpr int kMaxTile = 1024;  // beyond what any GPU holds, and far from overflowing the estimates
  if (c.mainloop != 80 && c.mainloop != 90) return fmt::format("mainloop = {}, must be 80 or 90", c.mainloop);
  if (c.tile_m > kMaxTile || c.tile_n > kMaxTile) {
    return fmt::format("tile_m = {} and tile_n = {} must be at most {}", c.tile_m, c.tile_n, kMaxTile);
  }
  if (c.warps < 1 || c.warps > 16) return fmt::format("warps = {}, must be 1..16", c.warps);
  if (c.tile_m < 16 || c.tile_m % (16 * c.warps) != 0) {
    return fmt::format("tile_m = {} is no multiple of 16 * warps = {}: every warp owns whole mma tiles",
                       c.tile_m, 16 * c.warps);
  }
  if (c.tile_n < 16 || c.tile_n % 16 != 0) return fmt::format("tile_n = {} is no multiple of 16", c.tile_n);
  if (c.ctas_per_sm < 1 || c.ctas_per_sm > 8)
    return fmt::format("ctas_per_sm = {}, must be 1..8", c.ctas_per_sm);
  return std::nullopt;
}

std::optional<std::string> broken_memory_rule(const KernelSpec& spec) {
  const KernelConfig& c = spec.config;
  const Arch& arch = spec.arch;
  const int shared = shared_bytes(spec.traits, c);
  if (shared > arch.shared_per_block) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per block", shared, arch.name,
                       arch.shared_per_block);
  }
  if ((shared + arch.shared_reserved) * c.ctas_per_sm > arch.shared_per_sm) {
    return fmt::format("{} blocks of {} bytes of shared memory do not fit the {} bytes of one SM of {}",
                       c.ctas_per_sm, shared, arch.shared_per_sm, arch.name);
  }
  if (c.threads() * c.ctas_per_sm > arch.threads_per_sm) {
    return fmt::format("{} blocks of {} threads do not fit the {} threads of one SM of {}", c.ctas_per_sm,
                       c.threads(), arch.threads_per_sm, arch.name);
  }
  return std::nullopt;
}

}  // namespace

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  return config.mainloop == 90 ? sm90::shared_bytes(traits, config) : sm80::shared_bytes(traits, config);
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  return config.mainloop == 90 ? sm90::estimated_registers(traits, config)
                               : sm80::estimated_registers(traits, config);
}

std::optional<std::string> why_rejected(const KernelSpec& spec) {
  const bool is_sm90 = spec.config.mainloop == 90;
  if (auto reason = broken_shape_rule(spec.config)) return reason;
  if (auto reason = is_sm90 ? sm90::broken_rule(spec) : sm80::broken_rule(spec.config)) return reason;
  if (auto reason = broken_memory_rule(spec)) return reason;
  return is_sm90 ? sm90::broken_register_rule(spec) : sm80::broken_register_rule(spec);
}

std::optional<std::string> why_rejected(const AttentionProblem& problem, const KernelConfig& config,
                                        const Arch& arch) {
  if (auto reason = why_rejected({traits_of(problem), config, arch})) return reason;
  if (config.packed_heads == 1) return std::nullopt;
  const std::int64_t group = problem.heads_q / problem.heads_kv;
  if (group % config.packed_heads != 0) {
    return fmt::format("packed_heads = {} does not divide the {} query heads of a key/value head",
                       config.packed_heads, group);
  }
  if (problem.seqlen_q > (std::numeric_limits<std::int32_t>::max() - config.tile_m) / config.packed_heads) {
    return fmt::format("packed_heads = {} makes more than 2^31 rows of seqlen_q = {}", config.packed_heads,
                       problem.seqlen_q);
  }
  return std::nullopt;
}

ConfigSpace config_space(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all = sm80::configs();
  if (sm90::runs_on(arch)) {
    for (const KernelConfig& config : sm90::configs(traits, arch)) all.push_back(config);
  }
  ConfigSpace space;
  for (const KernelConfig& config : all) {
    auto reason = why_rejected({traits, config, arch});
    if (reason) {
      space.rejected.push_back({config, std::move(*reason)});
    } else {
      space.valid.push_back(config);
    }
  }
  return space;
}

}  // namespace fa2
