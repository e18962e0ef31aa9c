// Which configurations can compute a problem on an arch, and why the others cannot.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// Every rule that this config breaks, with numbers, separated by "; "; nullopt if it can be rendered.
std::optional<std::string> why_rejected(const KernelSpec& spec);

/// The same for one problem: its heads and lengths too. `problem` is valid.
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

/// Every combination of the tunables' values of the kinds that compute `pass`, sorted into valid and rejected.
ConfigSpace config_space(const AttentionTraits& traits, const Arch& arch,
                         KernelPass pass = KernelPass::forward);

/// Whether there is more than one configuration to try of the kernels that compute `pass`; dq_convert's goes by the kernel that
/// sums.
bool can_be_tuned(const AttentionTraits& traits, const Arch& arch, KernelPass pass);

/// Dynamic shared memory of the kernel, bytes per block.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config);

}  // namespace fa2
