// The backward kernels on wgmma, fed by TMA.
#include <generator/kernels/backward_sm90.h>
#include <generator/kernels/key_map_rules.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>
#include <generator/kernels/rules.h>
#include <generator/kernels/score_tile_rules.h>
#include <generator/kernels/wgmma_rules.h>
#include <generator/wgmma_shapes.h>

#include <algorithm>

namespace fa2 {
namespace {

using wgmma_rules::aligned;

constexpr int kMostDim = 128;  // the largest head dim with which one warpgroup can own dK and dV
constexpr int kMostStages = 4;
constexpr int kHalfKeyBytes = 64 * 128 * 2;  // of K, that a block of a cluster sends the other

/// Returns whether the kernel accumulates the transpose of dQ.
bool is_transposed(const AttentionTraits& traits) {
  return padded_dim(traits.head_dim) > 64;
}

/// Returns whether one warpgroup owns dV and another dK.
bool splits_gradients(const AttentionTraits& traits, const KernelConfig& config) {
  return config.tile_m == std::int64_t{8} * config.warps ||
         std::max(traits.head_dim, traits.head_dim_v) > kMostDim;
}

/// Returns how many blocks share a key tile, each with half of its keys and of dQ's columns.
int cluster(const AttentionTraits& traits) {
  return padded_dim(traits.head_dim) > kMostDim ? 2 : 1;
}

bool orders_sums(const KernelConfig& config) {
  return config.kernel == KernelId::backward_ordered_sm90;
}

/// Returns the shared memory of a block whose ring of dO has `output_stages` slots.
int shared_bytes_with(const AttentionTraits& traits, const KernelConfig& c, int output_stages) {
  const bool splits = splits_gradients(traits, c), exchanges = cluster(traits) > 1;
  const int keys = c.tile_m / cluster(traits), score_places = c.pingpong > 0 ? 3 : 2;
  const int scores = c.tile_n * keys * element_bytes(traits);
  const int received = exchanges ? kHalfKeyBytes + score_places * scores : 0;
  const int slot = aligned(c.tile_n * row_bytes(traits, Side::q)) + 4 * c.tile_n;
  const int output_slot = aligned(c.tile_n * row_bytes(traits, Side::o)) + 4 * c.tile_n;
  const int mbarriers = 2 * (c.stages + output_stages) + 2 * score_places + 2 + (splits ? 4 : 0) +
                        (exchanges ? 3 * score_places + 1 : 0);
  // Each warpgroup stages all of an iteration's dQ with pingpong = 2, and half of it otherwise.
  const int sums = c.bulk_sums * (c.pingpong == 2 ? 2 : 1) * 4 * c.tile_n * padded_dim(traits.head_dim);
  return sums + c.stages * score_tile_rules::tile_bytes(traits, c) + keys * key_value_row_bytes(traits) +
         c.stages * slot + output_stages * output_slot + (score_places + (splits ? 2 : 0)) * scores +
         received + 8 * mbarriers;
}

/// Returns the slots for dO: fewer than for Q if they do not fit beside what the blocks of a cluster exchange.
int output_stages(const AttentionTraits& traits, const KernelConfig& c) {
  const bool fits = shared_bytes_with(traits, c, c.stages) <= find_arch("sm_90a")->shared_per_block;
  return cluster(traits) > 1 && !fits ? 1 : c.stages;
}

int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  return shared_bytes_with(traits, c, output_stages(traits, c));
}

/// Counts scores, their gradients, dK and dV.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndOperands = 28;
  if (splits_gradients(traits, c)) {
    const int sums = padded_dim(traits.head_dim) > 128 ? c.tile_n / cluster(traits) : c.tile_n / 2;
    return std::max(padded_dim(traits.head_dim), padded_dim(traits.head_dim_v)) / 2 + c.tile_n / 4 + sums +
           kAddressesAndOperands;
  }
  const int dq =
      c.pingpong == 2 ? padded_dim(traits.head_dim) / 2 : 0;  // else it has the registers of scores
  return c.tile_n + (padded_dim(traits.head_dim) + padded_dim(traits.head_dim_v)) / 2 + dq +
         kAddressesAndOperands;
}

/// Checks the query rows per iteration whose dQ the warps accumulate.
void check_sums(const KernelSpec& spec, int queries, BrokenRules& rules) {
  const int warps = spec.config.warps;
  const std::int64_t rows = std::int64_t{16} * warps;
  if (is_transposed(spec.traits)) {
    rules.expect(warps == 8, "warps = {}, must be 8 with head dims above 64", warps);
  } else if (spec.config.pingpong == 2) {  // one warpgroup accumulates all of an iteration
    rules.expect(queries == 64, "{} queries, must be 64 with pingpong = 2", queries);
  } else {
    rules.expect(queries == rows, "{} queries, must be 16 * warps = {} with head dims up to 64", queries,
                 rows);
  }
}

/// Dropout needs registers, and a warpgroup with both dK and dV has few.
void check_dropout(const KernelSpec& spec, BrokenRules& rules) {
  const AttentionTraits& t = spec.traits;
  if (!t.dropout || splits_gradients(t, spec.config) || spec.config.pingpong == 2) return;
  rules.expect(padded_dim(t.head_dim) == kMostDim && padded_dim(t.head_dim_v) == kMostDim,
               "the numbers of dropout find registers with head dims from 120 on, both");
  rules.expect(!t.window_left && !t.window_right && !t.attention_chunk && !t.softcap && !t.alibi,
               "windows, chunks, softcap and ALiBi leave no registers for the numbers of dropout");
}

void check_columns_behind_keys(const KernelSpec& spec, BrokenRules& rules) {
  // The transposed product reads past K's last column, so V must fill that memory.
  const int behind = 64 * (backward_sm90::sum_cols(spec.traits) * element_bytes(spec.traits) -
                           row_bytes(spec.traits, Side::k));
  const int keys = spec.config.tile_m / cluster(spec.traits);
  rules.expect(!is_transposed(spec.traits) || behind <= keys * row_bytes(spec.traits, Side::v),
               "head_dim_v = {} is too small beside head_dim = {}", spec.traits.head_dim_v,
               spec.traits.head_dim);
}

void check_map(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  key_map_rules::check(spec.traits, c, rules);
  rules.expect(c.key_map == 0 || !orders_sums(c), "key_map = 1 in {}: its turns count every query block",
               kind_of(c).name());
}

void check_score_tiles(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  score_tile_rules::check(spec.traits, c, rules);
  rules.expect(c.score_tiles == 0 || cluster(spec.traits) == 1, "score_tiles = 1 with two blocks a tile");
  rules.expect(c.score_tiles == 0 || !orders_sums(c), "score_tiles = 1 in {}", kind_of(c).name());
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  check_sums(spec, c.tile_n, rules);
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps % 4 == 0, "warps = {} are no whole warpgroups of 4", c.warps);
  check_map(spec, rules);
  check_score_tiles(spec, rules);
  const bool splits = splits_gradients(spec.traits, c);
  const bool shares = cluster(spec.traits) > 1;
  if (shares) {
    rules.expect(c.tile_m == rows && c.warps == 8,
                 "tile_m = {}, must be 128 with warps = 8 and head_dim = {}: two blocks share it", c.tile_m,
                 spec.traits.head_dim);
  } else {
    rules.expect(c.tile_m == rows || (splits && c.warps == 8),
                 "tile_m = {}, must be 16 * warps = {}, or 64 with warps = 8", c.tile_m, rows);
  }
  rules.expect(c.pingpong == 0 || (c.warps == 8 && !splits),
               "pingpong needs two warpgroups that do the same: warps = 8, tile_m = 128");
  rules.expect(c.pingpong < 2 || (!is_transposed(spec.traits) && !orders_sums(c)),
               "pingpong = 2 alternates dQ of up to 64 columns, in no order");
  rules.expect(c.bulk_sums == 0 || (c.warps == 8 && !is_transposed(spec.traits) && !orders_sums(c)),
               "bulk_sums adds dQ of up to 64 columns, by warps = 8, in no order");
  rules.expect(c.pingpong == 0 || c.stages > 1,
               "pingpong = {} needs stages = 2: one waits for its turn in a slot that the other waits for",
               c.pingpong);
  const bool is_full = !is_transposed(spec.traits) && !splits && c.pingpong < 2;
  rules.expect(!spec.traits.softcap || !is_full,
               "128 queries a step leave no registers for the softcap's derivative");
  rules.expect(!spec.traits.varlen || !is_full, "128 queries a step leave no registers for packed sequences");
  check_dropout(spec, rules);
  const int most = std::max(spec.traits.head_dim, spec.traits.head_dim_v);
  rules.expect(shares || most <= kMostDim || (c.tile_m == 64 && c.warps == 8),
               "head_dim_v = {} beside head_dim = {} needs tile_m = 64 with warps = 8",
               spec.traits.head_dim_v, spec.traits.head_dim);
  check_columns_behind_keys(spec, rules);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  const wgmma_rules::RegisterShares shares = wgmma_rules::register_shares(spec.config, spec.arch);
  const int registers = estimated_registers(spec.traits, spec.config);
  rules.expect(registers <= shares.consumer, "needs about {} registers a thread, a consumer warp has {}",
               registers, shares.consumer);
}

std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch&) {
  const std::int32_t tiles = score_tile_rules::has_capture(traits) ? 1 : 0;
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int tile_n : {48, 64, 80, 96, 128}) {
      for (const int stages : {1, 2, 3}) {
        for (const int pingpong : {0, 1, 2}) {
          for (const int bulk_sums : {0, 1}) {
            if (tile_m == 64 && pingpong > 0) continue;
            all.push_back({.kernel = KernelId::backward_sm90,
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = 8,
                           .stages = stages,
                           .pingpong = pingpong,
                           .bulk_sums = bulk_sums,
                           .key_map = has_mask_text(traits) ? 1 : 0,
                           .score_tiles = tiles});
          }
        }
      }
    }
  }
  return all;
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const wgmma_rules::RegisterShares shares = wgmma_rules::register_shares(spec.config, spec.arch);
  std::vector<RenderedConstant> constants{{"computes_ds", 1},
                                          {"sums_dq", 1},
                                          {"orders_sums", orders_sums(spec.config)},
                                          {"splits_gradients", splits_gradients(spec.traits, spec.config)},
                                          {"cluster_blocks", cluster(spec.traits)},
                                          {"output_stages", output_stages(spec.traits, spec.config)},
                                          {"producer_registers", shares.producer},
                                          {"consumer_registers", shares.consumer}};
  score_tile_rules::add_constants(spec, spec.config.tile_n, 64, constants);
  if (spec.config.score_tiles != 0)
    constants.push_back(
        {"adds_bias_gradient", score_tile_rules::adds_bias_gradient(spec.traits, spec.config)});
  return constants;
}

std::vector<SourceFile> headers(const KernelSpec& spec) {
  using enum WgmmaOperand;
  const DType dtype = spec.traits.dtype;
  const std::int32_t queries = spec.config.tile_n, d = padded_dim(spec.traits.head_dim);
  const WgmmaShape dq = is_transposed(spec.traits) ? WgmmaShape{dtype, queries, mn_major, k_major}
                                                   : WgmmaShape{dtype, d, k_major, mn_major};
  return {wgmma_header({{dtype, queries, k_major, k_major},                                // S and dP
                        {dtype, padded_dim(spec.traits.head_dim_v), registers, mn_major},  // dV
                        {dtype, d, registers, mn_major},                                   // dK
                        dq})};
}

/// Returns whether ptxas keeps descriptors outside of uniform registers if one warpgroup has both dK and dV: for packed sequences
/// of these head dims.
bool loses_descriptors(const PlannedProblem& problem) {
  const auto [least, most] = std::minmax({problem.head_dim, problem.head_dim_v});
  return problem.varlen && most > 80 && least <= 112;
}

/// Returns a config for up to 64 columns that leaves registers for what `whole` has none for.
KernelConfig alternating(KernelConfig whole) {
  whole.tile_n = 64;
  whole.stages = 3;
  whole.pingpong = 2;
  whole.bulk_sums = 1;
  return whole;
}

/// Returns whether a key tile has so many steps that dQ added in bulk saves more in them than its last step costs.
bool has_many_steps(const PlannedProblem& problem) {
  constexpr std::int64_t kMany = 2048;  // queries, measured on an H100
  return !problem.window_left && !problem.window_right && !problem.attention_chunk &&
         problem.seqlen_q * (problem.heads_q / problem.heads_kv) >= kMany;
}

/// Returns whether pieces of queries leave no registers for 128 queries an iteration: what hides queries behind a window or chunk, and
/// ALiBi, need the positions of both pieces.
bool crowds_registers(const PlannedProblem& problem) {
  return problem.query_pieces && (problem.window_left || problem.attention_chunk || problem.alibi);
}

/// Puts configs with tiles of the capture that has an element per score in front of those that read each element.
void use_score_tiles(const PlannedProblem& problem, std::vector<KernelConfig>& configs) {
  if (!score_tile_rules::has_capture(problem)) return;
  const Arch& arch = *find_arch("sm_90a");
  const AttentionTraits traits = traits_of(problem);
  std::vector<KernelConfig> tiles = configs;
  for (KernelConfig& config : tiles) {
    config.score_tiles = 1;
    // The warps that add dQ in bulk add to the gradient of a bias instead.
    if (score_tile_rules::adds_bias_gradient(traits, config)) config.bulk_sums = 0;
    const int least = config.pingpong > 0 ? 2 : 1;
    while (config.stages > least && shared_bytes(traits, config) > arch.shared_per_block) --config.stages;
  }
  configs.insert(configs.begin(), tiles.begin(), tiles.end());
}

/// With few columns exponentials take longest, and ping-pong scheduling hides them; with many the products do
/// (docs/kernel-notes.md). If registers cannot hold both dK and dV, as only the compiler may find out, warpgroups own one each.
template <KernelId id>
std::vector<KernelConfig> heuristic(const PlannedProblem& problem, const Arch&) {
  const bool is_small = problem.head_dim <= 64;
  KernelConfig whole = default_config(id);
  whole.tile_n = is_small ? 128 : 64;
  whole.pingpong = is_small ? 1 : 0;
  if (problem.head_dim > kMostDim) {
    KernelConfig small = whole;
    small.tile_n = 48;
    return {whole, small};
  }
  KernelConfig split = whole;
  split.tile_m = 64;
  if (!is_small && std::max(problem.head_dim, problem.head_dim_v) <= 128) split.tile_n = 96;
  split.pingpong = 0;
  std::vector<KernelConfig> configs;
  const bool is_crowded = is_small && crowds_registers(problem);
  if (is_small && !is_crowded && has_many_steps(problem)) {
    configs.push_back(whole);
    configs.back().bulk_sums = 1;
  }
  if (!loses_descriptors(problem) && !is_crowded) configs.push_back(whole);
  if (is_small) configs.push_back(alternating(whole));
  configs.push_back(split);
  if (id == KernelId::backward_sm90) {
    key_map_rules::use_maps(problem, configs);
    use_score_tiles(problem, configs);
  }
  return configs;
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},
                                 {"tile_n", 16, wgmma_rules::kMostColumns, 16},
                                 {"warps", 4, 12},
                                 {"stages", 1, kMostStages},
                                 {"ctas_per_sm", 1, 1},
                                 {"pingpong", 0, 2},
                                 {"bulk_sums", 0, 1},
                                 {"key_map", 0, 1, 1, true},
                                 {"score_tiles", 0, 1, 1, true}};
constexpr Tunable kTunablesOfConvert[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 4, 16}};

KernelConfig conversion(const KernelConfig& config) {
  KernelConfig convert = kernels::backward_convert_sm90.default_config;
  convert.tile_m = config.tile_n;
  convert.warps = config.pingpong == 2 ? 4 : config.warps;
  return convert;
}

/// Returns the kind of backward_sm90 or backward_ordered_sm90.
template <KernelId id>
constexpr KernelKind summing_kind(KernelPass pass, int section_mb, decltype(KernelKind::configs) all) {
  return {
      .id = id,
      .pass = pass,
      .main = "attention/backward/sm90/kernel.cu",
      .entry = "fa2_backward",
      .make_step = backward_sm90_step,
      .section_bytes = section_mb << 20,
      .begins_early = true,
      .tunables = kTunables,
      .default_config = {.kernel = id, .tile_m = 128, .tile_n = 64, .warps = 8, .stages = 2},
      .runs_on = wgmma_rules::runs_on,
      .supports = wgmma_rules::check_rows,
      .check = check,
      .check_registers = check_registers,
      .threads = wgmma_rules::threads,
      .cluster = cluster,
      .shared_bytes = shared_bytes,
      .estimated_registers = estimated_registers,
      .configs = all,
      .heuristic = heuristic<id>,
      .conversion = conversion,
      .constants = constants,
      .headers = headers,
      .reads = is_backward_trait_without_lse,
  };
}

}  // namespace

namespace backward_sm90 {

int sum_cols(const AttentionTraits& traits) {
  const int d = padded_dim(traits.head_dim);
  return d > 128 ? 256 : d > 64 ? 128 : d;
}

}  // namespace backward_sm90

constexpr KernelKind kernels::backward_sm90 =
    summing_kind<KernelId::backward_sm90>(KernelPass::dq_dk_dv, 16, configs);

/// It has one config, because the fastest one depends on the batch, and other batch entries must not change an entry's bits.
/// Larger sections put fewer tiles of one head on the GPU at once, which would wait for one another.
constexpr KernelKind kernels::backward_ordered_sm90 = summing_kind<KernelId::backward_ordered_sm90>(
    KernelPass::ordered_dq_dk_dv, 128, [](const AttentionTraits&, const Arch&) {
      return std::vector{kernels::backward_ordered_sm90.default_config};
    });

constexpr KernelKind kernels::backward_convert_sm90 = {
    .id = KernelId::backward_convert_sm90,
    .pass = KernelPass::dq_convert,
    .main = "attention/backward/convert.cu",
    .entry = "fa2_backward_convert",
    .make_step = backward_sm80_step,
    .begins_early = true,
    .tunables = kTunablesOfConvert,
    .default_config = {.kernel = KernelId::backward_convert_sm90, .tile_m = 64, .warps = 8},
    .runs_on = wgmma_rules::runs_on,
    .check = [](const KernelSpec& spec, BrokenRules& rules) { check_sums(spec, spec.config.tile_m, rules); },
    .shared_bytes = [](const AttentionTraits& traits,
                       const KernelConfig& config) { return config.tile_m * row_bytes(traits, Side::q); },
    .estimated_registers = [](const AttentionTraits&,
                              const KernelConfig& config) { return config.tile_m / 2 + 32; },
    .reads = [](std::string_view trait) { return trait != "query_pieces" && trait != "float32_out"; },
};

}  // namespace fa2
