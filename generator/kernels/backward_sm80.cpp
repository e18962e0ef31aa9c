// The backward kernels on mma.sync, fed by cp.async, and those that read rows once.
#include <core/text_reads.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>

namespace fa2 {
namespace {

/// The gradients that a kernel computes.
struct Computed {
  bool dq = false;
  bool dk = false;
  bool dv = false;
  bool captures = false;

  bool owns_keys() const { return dk || dv; }
  bool scores_gradients() const { return dq || dk || captures; }  ///< computes dS from dP and delta
};

Computed computed_by(const KernelConfig& config) {
  const KernelPass pass = pass_of(config);
  return {.dq = pass == KernelPass::dq,
          .dk = pass == KernelPass::dk_dv || pass == KernelPass::dk,
          .dv = pass == KernelPass::dk_dv || pass == KernelPass::dv,
          .captures = pass == KernelPass::d_captures};
}

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int keys = key_value_row_bytes(traits), queries = query_output_row_bytes(traits);
  if (!computed_by(config).owns_keys()) return config.tile_m * queries + config.stages * config.tile_n * keys;
  return config.tile_m * keys + config.stages * config.tile_n * (queries + 8);
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const Computed computed = computed_by(config);
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int tiles_of_scores = computed.captures ? 3 : computed.scores_gradients() ? 2 : 1;
  const int columns =
      (computed.dq || computed.dk ? d : 0) + (computed.dv ? dv : 0) + tiles_of_scores * config.tile_n;
  constexpr int kAddressesAndOperands = 56;
  return mma_rules::m_tiles(config) * (columns / 2 + 8) + kAddressesAndOperands;
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_tiles(spec.config, rules);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Returns every combination of the tunables' values.
template <KernelId id>
std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {16, 32, 64, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const int ctas_per_sm : {1, 2}) {
            all.push_back({.kernel = id,
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

struct Tiles {
  int tile_m, tile_n, warps, stages;
};

constexpr Tiles kSmall[] = {{64, 64, 4, 2}, {64, 32, 4, 2}, {64, 32, 4, 1}, {64, 16, 4, 1}};
constexpr Tiles kLarge[] = {{128, 64, 8, 2}, {128, 32, 8, 2}};

KernelConfig config_of(KernelId kernel, const Tiles& tiles) {
  return {.kernel = kernel,
          .tile_m = tiles.tile_m,
          .tile_n = tiles.tile_n,
          .warps = tiles.warps,
          .stages = tiles.stages};
}

/// Returns whether dropout needs more registers than dK and dV leave. Blackwell's kernels need a few more.
bool leaves_none_for_dropout(const PlannedProblem& problem, const KernelConfig& config, const Arch& arch) {
  if (!problem.dropout || config.kernel != KernelId::backward_dk_dv_sm80) return false;
  const int dim = std::max(problem.head_dim, problem.head_dim_v);
  return (dim > 64 && config.tile_n > 32) ||
         (dim > 96 && config.tile_n > 16 && arch.compute_capability >= 100);
}

/// Two small blocks per SM hide each other's barriers: on an H200 2 to 5% faster than one large block with as many warps
/// (docs/kernel-notes.md). One large block is at least as fast as two single-stage blocks.
template <KernelId id>
std::vector<KernelConfig> heuristic(const PlannedProblem& problem, const Arch& arch) {
  std::vector<KernelConfig> configs;
  for (const Tiles& tiles : kSmall) {
    const KernelConfig small = config_of(id, tiles);
    const SharedMemoryNeed two{arch, shared_bytes(traits_of(problem), small), 2};
    if (tiles.stages > 1 && two.fits()) configs.push_back(small);
  }
  for (const Tiles& tiles : kLarge) configs.push_back(config_of(id, tiles));
  for (const Tiles& tiles : kSmall) {
    const KernelConfig small = config_of(id, tiles);
    if (std::ranges::find(configs, small) == configs.end()) configs.push_back(small);
  }
  std::erase_if(configs,
                [&](const KernelConfig& config) { return leaves_none_for_dropout(problem, config, arch); });
  return configs;
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const Computed computed = computed_by(spec.config);
  return {{"owns_keys", computed.owns_keys()},
          {"computes_ds", computed.scores_gradients()},
          {"sums_dq", 0},
          {"computes_dk", computed.dk},
          {"computes_dv", computed.dv}};
}

constexpr int kMostWarps = 16;

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},
                                 {"tile_n", 16, kMostTile, 16},
                                 {"warps", 1, kMostWarps},
                                 {"stages", 1, 4},
                                 {"ctas_per_sm", 1, kMostBlocks}};
constexpr Tunable kTunablesOfDelta[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 1, kMostWarps}};
constexpr Tunable kTunablesOfSinks[] = {{"warps", 2, kMostWarps, 2}};

/// Returns the kind of a kernel that computes gradients from matrix products.
template <KernelId id>
constexpr KernelKind of_products(KernelPass pass, std::string_view main, std::string_view entry) {
  return {.id = id,
          .pass = pass,
          .main = main,
          .entry = entry,
          .make_step = backward_sm80_step,
          .tunables = kTunables,
          .default_config = {.kernel = id, .tile_n = 16},
          .check = check,
          .check_registers = check_registers,
          .shared_bytes = shared_bytes,
          .estimated_registers = estimated_registers,
          .configs = configs<id>,
          .heuristic = heuristic<id>,
          .constants = constants,
          .reads = is_backward_trait};
}

/// Returns the kind of a kernel that reads rows once, without its tunables.
template <KernelId id>
constexpr KernelKind of_rows(KernelPass pass, std::string_view main, std::string_view entry) {
  return {.id = id,
          .pass = pass,
          .main = main,
          .entry = entry,
          .make_step = backward_sm80_step,
          .default_config = {.kernel = id},
          .constants = constants,
          .reads = [](std::string_view trait) {
            return is_backward_trait_without_scores(trait) && is_backward_trait_without_keys(trait);
          }};
}

template <KernelId id>
constexpr KernelKind of_keys(KernelPass pass) {
  return of_products<id>(pass, "attention/backward/sm80/keys.cu", "fa2_backward_keys");
}

}  // namespace

constexpr KernelKind kernels::backward_dq_sm80 = [] {
  KernelKind kind = of_products<KernelId::backward_dq_sm80>(
      KernelPass::dq, "attention/backward/sm80/queries.cu", "fa2_backward_queries");
  kind.reads = [](std::string_view trait) {
    return is_backward_trait_without_keys(trait) || trait == "float32_dq";
  };
  return kind;
}();
constexpr KernelKind kernels::backward_captures = [] {
  KernelKind kind = of_products<KernelId::backward_captures>(
      KernelPass::d_captures, "attention/backward/sm80/captures.cu", "fa2_backward_captures");
  kind.make_step = backward_captures_step;
  kind.reads = is_backward_trait_without_keys;
  kind.supports = [](const AttentionTraits& traits, BrokenRules& rules) {
    rules.expect(traits.score_text != 0 && differentiable_captures(traits.score_text) != 0,
                 "score_text captures no tensor that has a gradient");
  };
  // The texts take registers and code for each score of a lane: tiles with few.
  kind.configs = nullptr;
  kind.heuristic = [](const PlannedProblem&, const Arch&) {
    return std::vector{config_of(KernelId::backward_captures, {64, 32, 4, 2}),
                       config_of(KernelId::backward_captures, {64, 32, 4, 1}),
                       config_of(KernelId::backward_captures, {64, 16, 4, 1})};
  };
  return kind;
}();
constexpr KernelKind kernels::backward_dk_dv_sm80 = of_keys<KernelId::backward_dk_dv_sm80>(KernelPass::dk_dv);
constexpr KernelKind kernels::backward_dk_sm80 = of_keys<KernelId::backward_dk_sm80>(KernelPass::dk);
constexpr KernelKind kernels::backward_dv_sm80 = of_keys<KernelId::backward_dv_sm80>(KernelPass::dv);

constexpr KernelKind kernels::backward_delta = [] {
  KernelKind kind = of_rows<KernelId::backward_delta>(KernelPass::delta, "attention/backward/delta.cu",
                                                      "fa2_backward_delta");
  kind.tunables = kTunablesOfDelta;
  return kind;
}();

constexpr KernelKind kernels::backward_sinks = [] {
  KernelKind kind = of_rows<KernelId::backward_sinks>(KernelPass::d_sinks, "attention/backward/sinks.cu",
                                                      "fa2_backward_sinks");
  kind.tunables = kTunablesOfSinks;
  kind.default_config.warps = kMostWarps;
  kind.supports = [](const AttentionTraits& traits, BrokenRules& rules) {
    rules.expect(traits.sinks, "sinks = false, must be true");
  };
  kind.shared_bytes = [](const AttentionTraits&, const KernelConfig& config) { return 4 * config.warps; };
  return kind;
}();

}  // namespace fa2
