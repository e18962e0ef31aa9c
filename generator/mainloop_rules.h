// The rules of each main loop, behind why_rejected() and config_space().
#pragma once

#include <generator/kernel_spec.h>

#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// head_dim as it lies in shared memory and registers: products take 16 columns a step.
constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

/// Whether so many blocks of `shared_bytes` each fit an SM of `arch` at once.
constexpr bool shared_memory_fits(const Arch& arch, int shared_bytes, int blocks) {
  return shared_bytes <= arch.shared_per_block &&
         (shared_bytes + arch.shared_reserved) * blocks <= arch.shared_per_sm;
}

/// mma.sync fed by cp.async.
namespace sm80 {
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);
int estimated_registers(const AttentionTraits& traits, const KernelConfig& config);
std::optional<std::string> broken_rule(const KernelConfig& config);
std::optional<std::string> broken_register_rule(const KernelSpec& spec);
/// Every combination of the tunables' values.
std::vector<KernelConfig> configs();
}  // namespace sm80

/// wgmma fed by TMA.
namespace sm90 {
bool runs_on(const Arch& arch);
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);
int estimated_registers(const AttentionTraits& traits, const KernelConfig& config);
std::optional<std::string> broken_rule(const KernelSpec& spec);
std::optional<std::string> broken_register_rule(const KernelSpec& spec);
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
