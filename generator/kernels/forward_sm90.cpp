// The forward kernel on wgmma, fed by TMA.
#include <generator/kernels/forward_rules.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/key_map_rules.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>
#include <generator/kernels/score_tile_rules.h>
#include <generator/sequences.h>
#include <generator/wgmma_shapes.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>
#include <utility>

namespace fa2 {
namespace {

using wgmma_rules::aligned;
using wgmma_rules::threads;
using wgmma_rules::warpgroups;

constexpr int kMostStages = 8;
constexpr int kScoreTiles = 2;  // in shared memory, with score_tiles

int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int query = std::max(row_bytes(traits, Side::q), row_bytes(traits, Side::o));
  const int key = std::max(row_bytes(traits, Side::k), row_bytes(traits, Side::v));
  const int mbarriers = 16 * (c.stages + c.q_buffers + 4) + (traits.varlen ? 40 : 0);
  const int parts = c.schedule == kSplitKeys ? 48 : 0;
  const int score_tile = score_tile_rules::tile_bytes(traits, c);
  const int score_tiles = score_tile > 0 ? kScoreTiles * (score_tile + 16) : 0;
  return c.q_buffers * warpgroups(c) * aligned(64 * query) + c.stages * aligned(c.tile_n * key) + mbarriers +
         parts + score_tiles;
}

/// Counts scores, the previous block's probabilities if they are still in use, and the output.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndSoftmax = 28;
  const int probabilities = c.overlap ? c.tile_n / 4 : 0;
  return c.tile_n / 2 + probabilities + padded_dim(traits.head_dim_v) / 2 + kAddressesAndSoftmax;
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps % 4 == 0, "warps = {} are no whole warpgroups of 4", c.warps);
  rules.expect(c.tile_m == rows, "tile_m = {}, must be 16 * warps = {}", c.tile_m, rows);
  rules.expect(c.pingpong == 0 || c.warps != 4, "pingpong needs two warpgroups: warps = 8 or 12");
  rules.expect(c.pingpong == 0 || c.overlap == 1, "pingpong = 1 needs overlap = 1");
  rules.expect(c.skip_masked == 0 || has_edges(spec.traits),
               "skip_masked = 1 without a mask, window or chunk to skip by");
  key_map_rules::check(spec.traits, c, rules);
  score_tile_rules::check(spec.traits, c, rules);
  rules.expect(c.score_tiles == 0 || !splits_keys(c), "score_tiles = 1 with split keys");
  rules.expect(c.score_tiles == 0 || c.skip_masked == 0,
               "skip_masked = 1 with score_tiles = 1: all warpgroups take the same tiles");
  rules.expect(c.key_map == 0 || !splits_keys(c),
               "key_map = 1 with split keys: parts of tiles are counted without it");
  rules.expect(c.key_map == 0 || c.skip_masked == 0,
               "skip_masked = 1 with key_map = 1: a map is that of all warpgroups");
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  const wgmma_rules::RegisterShares shares = forward_sm90::register_shares(spec);
  rules.expect(shares.at_launch <= shares.consumer,
               "{} threads are launched with {} registers each: setmaxnreg cannot raise that to {}; take "
               "more warps or blocks per SM",
               threads(c), shares.at_launch, shares.consumer);
  const int registers = estimated_registers(spec.traits, c);
  rules.expect(
      registers <= shares.consumer,
      "needs about {} registers a thread, a consumer warp has {} with {} blocks of {} threads per SM",
      registers, shares.consumer, c.ctas_per_sm, threads(c));
  // ptxas requires that one instruction's operands fit the registers at launch, whatever setmaxnreg adds later.
  constexpr int kBesideAccumulators = 30;
  const int instruction = std::max(c.tile_n, padded_dim(spec.traits.head_dim_v)) / 2 + kBesideAccumulators;
  rules.expect(instruction <= shares.at_launch,
               "a wgmma needs {} registers, the block is launched with {} a thread", instruction,
               shares.at_launch);
}

/// Returns every combination of the tunables' values, each with as many slots of the ring as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  const auto add = [&](KernelConfig c) {
    c.key_map = has_mask_text(traits) && !splits_keys(c) ? 1 : 0;
    c.score_tiles = score_tile_rules::has_capture(traits) && !splits_keys(c) ? 1 : 0;
    c.skip_masked = has_edges(traits) && c.key_map == 0 && c.score_tiles == 0;
    c.stages = forward_sm90::most_stages(traits, c, arch);
    all.push_back(c);
  };
  for (const int warps : {4, 8, 12}) {
    for (int tile_n = 48; tile_n <= 256; tile_n += 16) {
      for (const int ctas_per_sm : {1, 2, 3}) {
        for (const int q_buffers : {1, 2}) {
          for (const auto& [overlap, pingpong] : {std::pair{1, 0}, {1, 1}, {0, 0}}) {
            for (const int speculative_max : {0, 1}) {
              if (warps == 4 && (ctas_per_sm == 1 || pingpong == 1)) continue;
              KernelConfig c{.kernel = KernelId::forward_sm90,
                             .tile_m = 16 * warps,
                             .tile_n = tile_n,
                             .warps = warps,
                             .ctas_per_sm = ctas_per_sm,
                             .q_buffers = q_buffers,
                             .schedule = kDynamicPersistent,
                             .overlap = overlap,
                             .pingpong = pingpong,
                             .speculative_max = speculative_max};
              add(c);
              c.schedule = kSplitKeys;
              add(c);
            }
          }
        }
      }
    }
  }
  return all;
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const wgmma_rules::RegisterShares shares = forward_sm90::register_shares(spec);
  std::vector<RenderedConstant> constants{{"producer_registers", shares.producer},
                                          {"consumer_registers", shares.consumer}};
  score_tile_rules::add_constants(spec, 64, spec.config.tile_n, constants);
  return constants;
}

/// S = Q K^T with both in shared memory, and O += P V with P in registers.
std::vector<SourceFile> headers(const KernelSpec& spec) {
  using enum WgmmaOperand;
  const AttentionTraits& t = spec.traits;
  return {wgmma_header({{t.dtype, spec.config.tile_n, k_major, k_major},
                        {t.dtype, padded_dim(t.head_dim_v), registers, mn_major}})};
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},
                                 {"tile_n", 16, wgmma_rules::kMostColumns, 16},
                                 {"warps", 4, 12},
                                 {"stages", 2, kMostStages},
                                 {"ctas_per_sm", 1, kMostBlocks},
                                 {"q_buffers", 1, 2},
                                 {"schedule", 0, kSplitKeys},
                                 {"overlap", 0, 1},
                                 {"pingpong", 0, 1},
                                 {"speculative_max", 0, 1},
                                 {"skip_masked", 0, 1},
                                 {"key_map", 0, 1, 1, true},
                                 {"score_tiles", 0, 1, 1, true}};

}  // namespace

namespace forward_sm90 {

int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch) {
  return forward_rules::most_stages(traits, config, arch, kMostStages, shared_bytes);
}

wgmma_rules::RegisterShares register_shares(const KernelSpec& spec) {
  const KernelConfig& c = spec.config;
  // A producer that searches for its tiles needs more; one that gathers rows or searches for its range of KV blocks, more still.
  const bool has_room =
      wgmma_rules::warpgroups(c) == 1 || (wgmma_rules::warpgroups(c) == 2 && c.ctas_per_sm == 1);
  const bool looks = spec.traits.varlen && has_room;
  const bool splits = c.schedule == kSplitKeys, gathers = gathers_keys(spec.traits);
  const auto with = [&](int least) { return wgmma_rules::register_shares(c, spec.arch, least); };
  if (!splits && !gathers) return with(looks ? 40 : 24);
  // One that looks up pages for its range takes more, if consumers surely need less.
  constexpr int kMargin = 16;
  const bool is_ample = with(72).consumer >= estimated_registers(spec.traits, c) + kMargin;
  if (splits && spec.traits.page_size > 0 && is_ample) return with(72);
  return with(with(64).consumer == with(56).consumer ? 64 : 56);  // consumers get multiples of 8
}

}  // namespace forward_sm90

constexpr KernelKind kernels::forward_sm90 = {
    .id = KernelId::forward_sm90,
    .pass = KernelPass::forward,
    .main = "attention/forward/sm90/kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_sm90_step,
    .section_bytes = 8 << 20,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::forward_sm90,
                       .tile_m = 128,
                       .tile_n = 64,
                       .warps = 8,
                       .stages = 2,
                       .q_buffers = 1},
    .runs_on = wgmma_rules::runs_on,
    .supports = wgmma_rules::check_rows,
    .check = check,
    .check_registers = check_registers,
    .threads = threads,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = forward_sm90::heuristic,
    .heuristic_limits = forward_sm90::heuristic_limits,
    .config_for_partial_masks = forward_sm90::config_for_partial_masks,
    .constants = constants,
    .headers = headers,
    .reads = is_forward_trait,
};

}  // namespace fa2
