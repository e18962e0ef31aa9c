// The rules of each main loop, behind why_rejected() and config_space().
#pragma once

#include <fmt/format.h>
#include <generator/kernel_spec.h>

#include <string>
#include <vector>

namespace fa2 {

/// head_dim as it lies in shared memory and registers: products take 16 columns a step.
constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

/// Beyond what any GPU holds, and far from overflowing the estimates.
inline constexpr int kMostTile = 1024;
inline constexpr int kMostBlocks = 8;  ///< per SM

/// Whether so many blocks of `shared_bytes` each fit an SM of `arch` at once.
constexpr bool shared_memory_fits(const Arch& arch, int shared_bytes, int blocks) {
  return shared_bytes <= arch.shared_per_block &&
         (shared_bytes + arch.shared_reserved) * blocks <= arch.shared_per_sm;
}

/// Every rule that a config breaks, not the first alone. Texts are made only of broken ones.
class BrokenRules {
 public:
  template <class... Args>
  void expect(bool holds, fmt::format_string<const Args&...> rule, const Args&... args) {
    if (!holds) text_ += (text_.empty() ? "" : "; ") + fmt::format(rule, args...);
  }
  bool empty() const { return text_.empty(); }
  /// "stages = 1, must be 2..8; warps = 6 are no whole warpgroups of 4"
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The values of every field that a main loop understands, the least and the most of each.
struct ConfigRange {
  KernelConfig least;
  KernelConfig most;
};

/// mma.sync fed by cp.async.
namespace sm80 {
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);
int estimated_registers(const AttentionTraits& traits, const KernelConfig& config);
ConfigRange range();
/// What fields demand of each other.
void check(const KernelConfig& config, BrokenRules& rules);
/// Of a config in range().
void check_registers(const KernelSpec& spec, BrokenRules& rules);
/// Every combination of the tunables' values.
std::vector<KernelConfig> configs();
}  // namespace sm80

/// wgmma fed by TMA.
namespace sm90 {
bool runs_on(const Arch& arch);
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);
int estimated_registers(const AttentionTraits& traits, const KernelConfig& config);
ConfigRange range();
/// What fields demand of each other, of the traits and the arch.
void check(const KernelSpec& spec, BrokenRules& rules);
/// Of a config in range().
void check_registers(const KernelSpec& spec, BrokenRules& rules);
/// Every combination of the tunables' values, each with as many slots of the ring as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch);

/// Slots of the ring that fit the shared memory, `config.stages` aside; at least 2.
int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch);

/// Registers a thread once the warpgroups have shared out what the block was launched with.
struct RegisterShares {
  int at_launch;
  int producer;
  int consumer;
};
RegisterShares register_shares(const KernelConfig& config, const Arch& arch);
}  // namespace sm90

}  // namespace fa2
