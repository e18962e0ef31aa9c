// The kernel that maps the KV blocks which the text of a mask shows.
#include <generator/kernel_kind.h>
#include <generator/kernels/key_map_rules.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},
                                 {"tile_n", 16, kMostTile, 16},
                                 {"warps", 8, 8},
                                 {"key_map", kMapOfQueries, kMapOfKeys}};

/// Returns whether the kernel reads the trait: what says which pairs of a query and a key exist and are shown.
bool reads(std::string_view trait) {
  return trait == "mask" || trait == "window_left" || trait == "window_right" || trait == "attention_chunk" ||
         trait == "query_pieces" || trait == "varlen" || trait == "score_text";
}

}  // namespace

constexpr KernelKind kernels::key_map = {
    .id = KernelId::key_map,
    .pass = KernelPass::rows,
    .main = "attention/rows/key_map.cu",
    .entry = "fa2_key_map",
    .make_step = key_map_step,
    .head_dims = {.least = 8, .most = 576},
    .head_dims_v = {.least = 8, .most = 512},
    .reads_e4m3 = true,
    .reads_latent_rows = true,
    .finds_values_in_keys = true,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::key_map, .warps = 8, .key_map = 1},
    .check = [](const KernelSpec& spec,
                BrokenRules& rules) { key_map_rules::check(spec.traits, spec.config, rules); },
    .shared_bytes = [](const AttentionTraits&, const KernelConfig& config) { return 4 * config.warps; },
    .reads = reads,
};

}  // namespace fa2
