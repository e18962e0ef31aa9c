// What the backward on mma.sync and cp.async can be asked for.
#include <generator/kernels/backward_sm80.h>
#include <generator/kernels/mma_rules.h>

namespace fa2 {
namespace {

/// What the kernels of the two sides differ in.
struct Computed {
  bool dq = false;
  bool dk = false;
  bool dv = false;

  bool owns_keys() const { return dk || dv; }
  bool scores_gradients() const { return dq || dk; }  ///< dS, and so dP and delta
};

Computed computed_by(const KernelConfig& config) {
  const auto pass = static_cast<KernelPass>(config.pass);
  return {.dq = pass == KernelPass::dq,
          .dk = pass == KernelPass::dk_dv || pass == KernelPass::dk,
          .dv = pass == KernelPass::dk_dv || pass == KernelPass::dv};
}

bool runs_on(const Arch&) {
  return true;
}

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int row = (padded_dim(traits.head_dim) + padded_dim(traits.head_dim_v)) * 2;
  const int statistics = computed_by(config).owns_keys() ? 8 : 0;
  return config.tile_m * row + config.stages * config.tile_n * (row + statistics);
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const Computed computed = computed_by(config);
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int tiles_of_scores = computed.scores_gradients() ? 2 : 1;
  const int columns =
      (computed.scores_gradients() ? d : 0) + (computed.dv ? dv : 0) + tiles_of_scores * config.tile_n;
  constexpr int kAddressesAndOperands = 56;
  return mma_rules::m_tiles(config) * (columns / 2 + 8) + kAddressesAndOperands;
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_tiles(spec.config, rules);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Every combination of the tunables' values.
std::vector<KernelConfig> configs(KernelPass pass) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {16, 32, 64, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const int ctas_per_sm : {1, 2}) {
            all.push_back({.mainloop = 80,
                           .pass = static_cast<std::int32_t>(pass),
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = warps,
                           .stages = stages,
                           .ctas_per_sm = ctas_per_sm});
          }
        }
      }
    }
  }
  return all;
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const Computed computed = computed_by(spec.config);
  return {
      {"packed_heads", 1}, {"owns_keys", computed.owns_keys()}, {"computes_ds", computed.scores_gradients()},
      {"sums_dq", 0},      {"computes_dk", computed.dk},        {"computes_dv", computed.dv}};
}

std::vector<WgmmaShape> no_wgmma(const KernelSpec&) {
  return {};
}

constexpr int kMostWarps = 16;

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},
                                 {"tile_n", 16, kMostTile, 16},
                                 {"warps", 1, kMostWarps},
                                 {"stages", 1, 4},
                                 {"ctas_per_sm", 1, kMostBlocks}};
constexpr Tunable kTunablesOfDelta[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 1, kMostWarps}};
constexpr Tunable kTunablesOfSinks[] = {{"warps", 2, kMostWarps, 2}};

/// All but `pass`, `name`, `main`, `entry` and `configs`.
constexpr KernelKind of_products(KernelPass pass, std::string_view name, std::string_view main,
                                 std::string_view entry,
                                 std::vector<KernelConfig> (*configs_of)(const AttentionTraits&,
                                                                         const Arch&)) {
  return {.mainloop = 80,
          .pass = pass,
          .name = name,
          .main = main,
          .entry = entry,
          .make_step = backward_sm80_step,
          .section_bytes = 0,
          .tunables = kTunables,
          .default_config = {.mainloop = 80, .pass = static_cast<std::int32_t>(pass), .tile_n = 16},
          .runs_on = runs_on,
          .check = check,
          .check_registers = check_registers,
          .threads = mma_rules::threads,
          .shared_bytes = shared_bytes,
          .estimated_registers = estimated_registers,
          .configs = configs_of,
          .constants = constants,
          .wgmma_shapes = no_wgmma};
}

/// Of the kernels that go over rows once: all but what is worth a word of its own.
template <KernelPass kPass>
constexpr KernelKind of_rows(std::string_view name, std::string_view main, std::string_view entry) {
  return {.mainloop = 80,
          .pass = kPass,
          .name = name,
          .main = main,
          .entry = entry,
          .make_step = backward_sm80_step,
          .section_bytes = 0,
          .tunables = {},
          .default_config = {.mainloop = 80, .pass = static_cast<std::int32_t>(kPass)},
          .runs_on = runs_on,
          .check = [](const KernelSpec&, BrokenRules&) {},
          .check_registers = [](const KernelSpec&, BrokenRules&) {},
          .threads = mma_rules::threads,
          .shared_bytes = [](const AttentionTraits&, const KernelConfig&) { return 0; },
          .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 32; },
          .configs =
              [](const AttentionTraits&, const Arch&) {
                return std::vector{default_config(80, static_cast<std::int32_t>(kPass))};
              },
          .constants = constants,
          .wgmma_shapes = no_wgmma};
}

template <KernelPass kPass>
std::vector<KernelConfig> configs_of(const AttentionTraits&, const Arch&) {
  return configs(kPass);
}

constexpr KernelKind of_keys(KernelPass pass, std::string_view name,
                             std::vector<KernelConfig> (*configs_of)(const AttentionTraits&, const Arch&)) {
  return of_products(pass, name, "attention/backward/sm80/keys.cu", "fa2_backward_keys", configs_of);
}

}  // namespace

constexpr KernelKind kBackwardQueries =
    of_products(KernelPass::dq, "backward_queries_sm80", "attention/backward/sm80/queries.cu",
                "fa2_backward_queries", configs_of<KernelPass::dq>);
constexpr KernelKind kBackwardKeys =
    of_keys(KernelPass::dk_dv, "backward_keys_sm80", configs_of<KernelPass::dk_dv>);
constexpr KernelKind kBackwardDk = of_keys(KernelPass::dk, "backward_dk_sm80", configs_of<KernelPass::dk>);
constexpr KernelKind kBackwardDv = of_keys(KernelPass::dv, "backward_dv_sm80", configs_of<KernelPass::dv>);

constexpr KernelKind kBackwardDelta = [] {
  KernelKind kind =
      of_rows<KernelPass::delta>("backward_delta", "attention/backward/delta.cu", "fa2_backward_delta");
  kind.tunables = kTunablesOfDelta;
  return kind;
}();

constexpr KernelKind kBackwardSinks = [] {
  KernelKind kind =
      of_rows<KernelPass::d_sinks>("backward_sinks", "attention/backward/sinks.cu", "fa2_backward_sinks");
  kind.tunables = kTunablesOfSinks;
  kind.default_config.warps = kMostWarps;
  kind.check = [](const KernelSpec& spec, BrokenRules& rules) {
    rules.expect(spec.traits.sinks, "there are no sinks");
  };
  kind.shared_bytes = [](const AttentionTraits&, const KernelConfig& config) { return 4 * config.warps; };
  return kind;
}();

}  // namespace fa2
