// What the main loop on wgmma and TMA can be asked for.
#include <generator/mainloop_rules.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace fa2::sm90 {
namespace {

constexpr int kMostStages = 8;
constexpr int kMostColumns = 256;  // of a wgmma

int warpgroups(const KernelConfig& config) {
  return config.warps / 4;
}

/// Tiles start where the pattern of the widest swizzle does.
int aligned(int bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

int wider_dim(const AttentionTraits& traits) {
  return std::max(padded_dim(traits.head_dim), padded_dim(traits.head_dim_v));
}

}  // namespace

bool runs_on(const Arch& arch) {
  return arch.compute_capability == 90;
}

int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int row = wider_dim(traits) * 2;
  const int mbarriers = 16 * (c.stages + c.q_buffers + 2) + 8;
  return c.q_buffers * warpgroups(c) * aligned(64 * row) + c.stages * aligned(c.tile_n * row) + mbarriers;
}

/// Scores, the probabilities of the block before if they are still in use, and the output.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndSoftmax = 28;
  const int probabilities = c.overlap ? c.tile_n / 4 : 0;
  return c.tile_n / 2 + probabilities + padded_dim(traits.head_dim_v) / 2 + kAddressesAndSoftmax;
}

RegisterShares register_shares(const KernelConfig& c, const Arch& arch) {
  constexpr int kLeast = 24, kMost = 240;
  const int at_launch = std::min(256, arch.registers_per_sm / (c.threads() * c.ctas_per_sm) / 8 * 8);
  const int total = at_launch * (warpgroups(c) + 1);
  const int consumer = std::min(kMost, (total - kLeast) / warpgroups(c) / 8 * 8);
  return {at_launch, std::min(kMost, total - consumer * warpgroups(c)), consumer};
}

ConfigRange range() {
  return {{.mainloop = 90, .tile_m = 16, .tile_n = 16, .warps = 4, .stages = 2, .q_buffers = 1},
          {.mainloop = 90,
           .tile_m = kMostTile,
           .tile_n = kMostColumns,
           .warps = 12,
           .stages = kMostStages,
           .ctas_per_sm = kMostBlocks,
           .q_buffers = 2,
           .schedule = 2,
           .overlap = 1,
           .pingpong = 1,
           .speculative_max = 1,
           .skip_masked = 1,
           .packed_heads = 64}};
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  rules.expect(runs_on(spec.arch), "main loop 90 needs an sm_90a GPU, not {}", spec.arch.name);
  rules.expect(spec.traits.row_alignment == RowAlignment::bytes16,
               "main loop 90 loads by TMA: rows must be 16-byte aligned and ascend");
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps % 4 == 0, "warps = {} are no whole warpgroups of 4", c.warps);
  rules.expect(c.tile_m == rows, "tile_m = {}, must be 16 * warps = {}", c.tile_m, rows);
  rules.expect(c.pingpong == 0 || c.warps != 4, "pingpong needs two warpgroups: warps = 8 or 12");
  rules.expect(c.pingpong == 0 || c.overlap == 1, "pingpong = 1 needs overlap = 1");
  rules.expect(c.skip_masked == 0 || spec.traits.mask != MaskKind::none,
               "skip_masked = 1 without a mask to skip by");
  rules.expect(std::has_single_bit(static_cast<unsigned>(c.packed_heads)),
               "packed_heads = {}, must be a power of two", c.packed_heads);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  const RegisterShares shares = register_shares(c, spec.arch);
  rules.expect(shares.at_launch <= shares.consumer,
               "{} threads are launched with {} registers each: setmaxnreg cannot raise that to {}; take "
               "more warps or blocks per SM",
               c.threads(), shares.at_launch, shares.consumer);
  const int registers = estimated_registers(spec.traits, c);
  rules.expect(
      registers <= shares.consumer,
      "needs about {} registers a thread, a consumer warp has {} with {} blocks of {} threads per SM",
      registers, shares.consumer, c.ctas_per_sm, c.threads());
  // ptxas wants one instruction's operands to fit what the block is launched with, whatever setmaxnreg gives
  // later.
  constexpr int kBesideAccumulators = 30;
  const int instruction = std::max(c.tile_n, padded_dim(spec.traits.head_dim_v)) / 2 + kBesideAccumulators;
  rules.expect(instruction <= shares.at_launch,
               "a wgmma needs {} registers, the block is launched with {} a thread", instruction,
               shares.at_launch);
}

int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch) {
  KernelConfig c = config;
  for (c.stages = kMostStages; c.stages > 2; --c.stages) {
    if (shared_memory_fits(arch, shared_bytes(traits, c), c.ctas_per_sm)) break;
  }
  return c.stages;
}

std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  constexpr int kDynamic = 2;
  std::vector<KernelConfig> all;
  const auto add = [&](KernelConfig c) {
    c.skip_masked = traits.mask != MaskKind::none;
    c.stages = most_stages(traits, c, arch);
    all.push_back(c);
  };
  for (const int warps : {4, 8, 12}) {
    for (int tile_n = 48; tile_n <= 256; tile_n += 16) {
      for (const int ctas_per_sm : {1, 2, 3}) {
        for (const int q_buffers : {1, 2}) {
          for (const auto& [overlap, pingpong] : {std::pair{1, 0}, {1, 1}, {0, 0}}) {
            for (const int speculative_max : {0, 1}) {
              if (warps == 4 && (ctas_per_sm == 1 || pingpong == 1)) continue;
              add({.mainloop = 90,
                   .tile_m = 16 * warps,
                   .tile_n = tile_n,
                   .warps = warps,
                   .ctas_per_sm = ctas_per_sm,
                   .q_buffers = q_buffers,
                   .schedule = kDynamic,
                   .overlap = overlap,
                   .pingpong = pingpong,
                   .speculative_max = speculative_max});
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace fa2::sm90
