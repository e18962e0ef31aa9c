// What the main loop on wgmma and TMA can be asked for.
#include <fmt/format.h>
#include <generator/mainloop_rules.h>

#include <algorithm>
#include <utility>

namespace fa2::sm90 {
namespace {

constexpr int kMostStages = 8;

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

std::optional<std::string> broken_rule(const KernelSpec& spec) {
  const KernelConfig& c = spec.config;
  const auto flag = [](const char* name, int value) -> std::optional<std::string> {
    if (value == 0 || value == 1) return std::nullopt;
    return fmt::format("{} = {}, must be 0 or 1", name, value);
  };
  if (!runs_on(spec.arch)) return fmt::format("main loop 90 needs an sm_90a GPU, not {}", spec.arch.name);
  if (spec.traits.row_alignment != RowAlignment::bytes16)
    return "main loop 90 loads by TMA: rows must be 16-byte aligned and ascend";
  if (c.warps % 4 != 0 || c.warps > 12) return fmt::format("warps = {}, must be 4, 8 or 12", c.warps);
  if (c.tile_m != 16 * c.warps)
    return fmt::format("tile_m = {}, must be 16 * warps = {}", c.tile_m, 16 * c.warps);
  if (c.tile_n > 256) return fmt::format("tile_n = {}, a wgmma has at most 256 columns", c.tile_n);
  if (c.stages < 2 || c.stages > kMostStages)
    return fmt::format("stages = {}, must be 2..{}", c.stages, kMostStages);
  if (c.q_in_registers != 0) return "q_in_registers is of main loop 80 alone, else 0";
  if (c.q_buffers < 1 || c.q_buffers > 2) return fmt::format("q_buffers = {}, must be 1 or 2", c.q_buffers);
  if (c.schedule < 0 || c.schedule > 2) return fmt::format("schedule = {}, must be 0, 1 or 2", c.schedule);
  if (auto broken = flag("overlap", c.overlap)) return broken;
  if (auto broken = flag("pingpong", c.pingpong)) return broken;
  if (auto broken = flag("speculative_max", c.speculative_max)) return broken;
  if (auto broken = flag("skip_masked", c.skip_masked)) return broken;
  if (c.pingpong == 1 && c.warps == 4) return "pingpong needs two warpgroups: warps = 8 or 12";
  if (c.pingpong == 1 && c.overlap == 0) return "pingpong = 1 needs overlap = 1";
  if (c.skip_masked == 1 && spec.traits.mask == MaskKind::none)
    return "skip_masked = 1 without a mask to skip by";
  if (c.packed_heads < 1 || c.packed_heads > 64 || (c.packed_heads & (c.packed_heads - 1)) != 0)
    return fmt::format("packed_heads = {}, must be a power of two up to 64", c.packed_heads);
  return std::nullopt;
}

std::optional<std::string> broken_register_rule(const KernelSpec& spec) {
  const KernelConfig& c = spec.config;
  const RegisterShares shares = register_shares(c, spec.arch);
  if (shares.at_launch > shares.consumer) {
    return fmt::format(
        "{} threads are launched with {} registers each: setmaxnreg cannot raise that to {}; take more "
        "warps or blocks per SM",
        c.threads(), shares.at_launch, shares.consumer);
  }
  const int registers = estimated_registers(spec.traits, c);
  if (registers > shares.consumer) {
    return fmt::format(
        "needs about {} registers a thread, a consumer warp has {} with {} blocks of {} threads per SM",
        registers, shares.consumer, c.ctas_per_sm, c.threads());
  }
  // ptxas wants one instruction's operands to fit what the block is launched with, whatever setmaxnreg gives
  // later.
  constexpr int kBesideAccumulators = 30;
  const int instruction = std::max(c.tile_n, padded_dim(spec.traits.head_dim_v)) / 2 + kBesideAccumulators;
  if (instruction > shares.at_launch) {
    return fmt::format("a wgmma needs {} registers, the block is launched with {} a thread", instruction,
                       shares.at_launch);
  }
  return std::nullopt;
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
