// Which configurations can compute a problem on an arch, and why the others cannot.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// Returns every rule that this config breaks, with numbers, separated by "; "; nullopt if it can be rendered.
std::optional<std::string> why_rejected(const KernelSpec& spec);

/// Like why_rejected(spec), and checks heads and lengths too. `problem` must be valid.
std::optional<std::string> why_rejected(const PlannedProblem& problem, const KernelConfig& config,
                                        const Arch& arch);

struct Rejection {
  KernelConfig config;
  std::string reason;
};

struct ConfigSpace {
  std::vector<KernelConfig> valid;  ///< in a fixed order
  std::vector<Rejection> rejected;
};

/// Returns every config that tuning may try of the kernels that compute `pass`, sorted into valid and rejected.
ConfigSpace config_space(const AttentionTraits& traits, const Arch& arch,
                         KernelPass pass = KernelPass::forward);

/// Returns whether the kernels that compute `pass` have more than one config to try. False for dq_convert: the kernel that
/// accumulates dQ determines its config.
bool can_be_tuned(const AttentionTraits& traits, const Arch& arch, KernelPass pass);

/// Returns the dynamic shared memory of the kernel in bytes per block.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);

}  // namespace fa2
