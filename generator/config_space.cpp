// The rules that all kernels share, and the configs that satisfy them.
#include <generator/config_space.h>
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/rules.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <templates/attention/common/tile_schedule.cuh>
#include <utility>

namespace fa2 {
namespace {

/// Checks each field by itself.
void check_ranges(const KernelKind& kind, const KernelConfig& config, BrokenRules& rules) {
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t value) {
    if (const Tunable* tunable = kind.tunable(name)) {
      rules.expect(value >= tunable->least && value <= tunable->most, "{} = {}, must be {}..{}", name, value,
                   tunable->least, tunable->most);
    } else {
      const std::int32_t neutral = neutral_value(name);
      rules.expect(value == neutral, "{} = {}, must be {} for {}", name, value, neutral, kind.name());
    }
  });
}

void check_multiples(const KernelKind& kind, const KernelConfig& config, BrokenRules& rules) {
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t value) {
    const Tunable* tunable = kind.tunable(name);
    if (tunable == nullptr) return;
    rules.expect(value % tunable->multiple_of == 0, "{} = {} is no multiple of {}", name, value,
                 tunable->multiple_of);
  });
}

/// Checks what the kernel computes at all.
void check_problem(const KernelKind& kind, const KernelSpec& spec, BrokenRules& rules) {
  const AttentionTraits& t = spec.traits;
  rules.expect(kind.runs_on(spec.arch), "{} does not run on {}", kind.name(), spec.arch.name);
  rules.expect(kind.head_dims.contain(t.head_dim), "head_dim = {}, {} for {}", t.head_dim,
               rule_of(kind.head_dims), kind.name());
  rules.expect(kind.head_dims_v.contain(t.head_dim_v), "head_dim_v = {}, {} for {}", t.head_dim_v,
               rule_of(kind.head_dims_v), kind.name());
  const bool reads_keys = t.kv_type == KvType::same || (t.kv_type == KvType::e4m3 && kind.reads_e4m3) ||
                          (t.kv_type == KvType::ds_mla && kind.reads_latent_rows) ||
                          (t.kv_type == KvType::scaled && kind.pass == KernelPass::forward);
  rules.expect(reads_keys, "kv_type = {} is not for {}", to_string(t.kv_type), kind.name());
  rules.expect(!t.values_in_keys || kind.finds_values_in_keys, "values_in_keys is not for {}", kind.name());
  rules.expect(!t.float32_out || kind.pass == KernelPass::forward || kind.pass == KernelPass::rows,
               "float32_out is not for {}, which computes gradients", kind.name());
  kind.supports(t, rules);
}

/// Checks a block's resources. Fields must be in range, or the estimates overflow.
void check_resources(const KernelKind& kind, const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  const int threads = kind.threads(c);
  SharedMemoryNeed{spec.arch, kind.shared_bytes(spec.traits, c), c.ctas_per_sm}.check(rules);
  rules.expect(threads * c.ctas_per_sm <= spec.arch.threads_per_sm,
               "{} blocks of {} threads do not fit the {} threads of one SM of {}", c.ctas_per_sm, threads,
               spec.arch.threads_per_sm, spec.arch.name);
  kind.check_registers(spec, rules);
}

void check_config(const KernelSpec& spec, BrokenRules& rules) {
  const KernelKind& kind = kind_of(spec.config);
  check_ranges(kind, spec.config, rules);
  const bool is_in_range = rules.empty();
  check_multiples(kind, spec.config, rules);
  check_problem(kind, spec, rules);
  kind.check(spec, rules);
  if (is_in_range) check_resources(kind, spec, rules);
}

/// packed_rows() is exact for so many queries, and rows have 32 bits.
void check_packed_rows(const AttentionProblem& problem, const KernelConfig& config, BrokenRules& rules) {
  constexpr std::int64_t kMostQueries = std::int64_t{1} << 23;
  if (config.tile_m <= 0) return;  // a broken rule already, and no tile to divide by
  const HeadPacking packing = head_packing(problem, config);
  rules.expect(packing.heads == 1 || problem.seqlen_q <= kMostQueries,
               "{} heads share tiles, which hold at most 2^23 queries, not {}", packing.heads,
               problem.seqlen_q);
}

/// Split-KV kernels number the KV blocks of all tiles in 32 bits.
void check_key_blocks(const AttentionProblem& p, const KernelConfig& config, BrokenRules& rules) {
  if (!splits_keys(config) || !rules.empty()) return;
  const std::int64_t tiles = most_query_tiles(p, config);
  const std::int64_t blocks = std::max<std::int64_t>(1, (p.seqlen_k + config.tile_n - 1) / config.tile_n);
  rules.expect(tiles <= std::numeric_limits<std::int32_t>::max() / blocks,
               "split KV numbers at most 2^31 KV blocks, not {} tiles of {}", tiles, blocks);
}

std::optional<std::string> text_of(const BrokenRules& rules) {
  if (rules.empty()) return std::nullopt;
  return rules.text();
}

}  // namespace

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  return kind_of(config).shared_bytes(traits, config);
}

std::optional<std::string> why_rejected(const KernelSpec& spec) {
  BrokenRules rules;
  check_config(spec, rules);
  return text_of(rules);
}

std::optional<std::string> why_rejected(const PlannedProblem& problem, const KernelConfig& config,
                                        const Arch& arch) {
  BrokenRules rules;
  check_config({traits_of(problem), config, arch}, rules);
  check_packed_rows(problem, config, rules);
  check_key_blocks(problem, config, rules);
  return text_of(rules);
}

ConfigSpace config_space(const AttentionTraits& traits, const Arch& arch, KernelPass pass) {
  ConfigSpace space;
  for (const KernelKind* kind : kernel_kinds()) {
    if (kind->pass != pass || !kind->runs_on(arch)) continue;
    for (const KernelConfig& config : kind->every_config(traits, arch)) {
      if (auto reason = why_rejected({traits, config, arch})) {
        space.rejected.push_back({config, std::move(*reason)});
      } else {
        space.valid.push_back(config);
      }
    }
  }
  return space;
}

bool can_be_tuned(const AttentionTraits& traits, const Arch& arch, KernelPass pass) {
  if (pass == KernelPass::dq_convert) return false;
  std::size_t count = 0;
  for (const KernelKind* kind : kernel_kinds()) {
    if (kind->pass == pass && kind->runs_on(arch)) count += kind->every_config(traits, arch).size();
  }
  return count > 1;
}

}  // namespace fa2
