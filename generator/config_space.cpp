// What both main loops' rules have in common, and the enumeration of what satisfies them.
#include <generator/config_space.h>
#include <generator/mainloop_rules.h>

#include <limits>
#include <utility>

namespace fa2 {
namespace {

using Values = std::vector<std::pair<const char*, int>>;

Values values_of(const KernelConfig& config) {
  Values values;
  KernelConfig::visit(config, [&](const char* name, int value) { values.emplace_back(name, value); });
  return values;
}

/// Every field by itself.
void check_range(const KernelConfig& config, const ConfigRange& range, BrokenRules& rules) {
  const Values values = values_of(config), least = values_of(range.least), most = values_of(range.most);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, value] = values[i];
    const int low = least[i].second, high = most[i].second;
    if (low == high) {
      rules.expect(value == low, "{} = {}, must be {} with main loop {}", name, value, low, config.mainloop);
    } else {
      rules.expect(value >= low && value <= high, "{} = {}, must be {}..{}", name, value, low, high);
    }
  }
}

void check_memory(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  const Arch& arch = spec.arch;
  const int shared = shared_bytes(spec.traits, c);
  rules.expect(shared <= arch.shared_per_block, "needs {} bytes of shared memory, {} has {} per block",
               shared, arch.name, arch.shared_per_block);
  rules.expect(
      shared > arch.shared_per_block || (shared + arch.shared_reserved) * c.ctas_per_sm <= arch.shared_per_sm,
      "{} blocks of {} bytes of shared memory do not fit the {} bytes of one SM of {}", c.ctas_per_sm, shared,
      arch.shared_per_sm, arch.name);
  rules.expect(c.threads() * c.ctas_per_sm <= arch.threads_per_sm,
               "{} blocks of {} threads do not fit the {} threads of one SM of {}", c.ctas_per_sm,
               c.threads(), arch.threads_per_sm, arch.name);
}

/// What a block takes, where no number is so wild that it cannot be told.
void check_resources(const KernelSpec& spec, BrokenRules& rules) {
  check_memory(spec, rules);
  spec.config.mainloop == 90 ? sm90::check_registers(spec, rules) : sm80::check_registers(spec, rules);
}

void check_config(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  rules.expect(c.mainloop == 80 || c.mainloop == 90, "mainloop = {}, must be 80 or 90", c.mainloop);
  if (!rules.empty()) return;
  check_range(c, c.mainloop == 90 ? sm90::range() : sm80::range(), rules);
  const bool is_in_range = rules.empty();
  rules.expect(c.tile_n % 16 == 0, "tile_n = {} is no multiple of 16", c.tile_n);
  c.mainloop == 90 ? sm90::check(spec, rules) : sm80::check(c, rules);
  if (is_in_range) check_resources(spec, rules);
}

void check_heads(const AttentionProblem& problem, const KernelConfig& config, BrokenRules& rules) {
  if (config.packed_heads <= 1) return;
  const std::int64_t group = problem.heads_q / problem.heads_kv;
  rules.expect(group % config.packed_heads == 0,
               "packed_heads = {} does not divide the {} query heads of a key/value head",
               config.packed_heads, group);
  const std::int64_t most_rows = std::int64_t{std::numeric_limits<std::int32_t>::max()} - config.tile_m;
  rules.expect(problem.seqlen_q <= most_rows / config.packed_heads,
               "packed_heads = {} makes more than 2^31 rows of seqlen_q = {}", config.packed_heads,
               problem.seqlen_q);
}

std::optional<std::string> text_of(const BrokenRules& rules) {
  if (rules.empty()) return std::nullopt;
  return rules.text();
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
  BrokenRules rules;
  check_config(spec, rules);
  return text_of(rules);
}

std::optional<std::string> why_rejected(const AttentionProblem& problem, const KernelConfig& config,
                                        const Arch& arch) {
  BrokenRules rules;
  check_config({traits_of(problem), config, arch}, rules);
  check_heads(problem, config, rules);
  return text_of(rules);
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
