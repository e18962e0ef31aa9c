// Rules of forward kernels that pack heads and whose rings fill the shared memory.
#pragma once

#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <bit>

namespace fa2::forward_rules {

inline void check_packed_heads(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  rules.expect(std::has_single_bit(static_cast<unsigned>(c.packed_heads)),
               "packed_heads = {}, must be a power of two", c.packed_heads);
  rules.expect(c.packed_heads == 1 || !spec.traits.dropout,
               "packed_heads = {}, must be 1 with dropout: a call of Philox is for two queries of a head",
               c.packed_heads);
}

/// Returns how many slots of the ring fit the shared memory; 2..most. Ignores `config.stages`. shared_bytes(traits, config)
/// returns the bytes of a block.
template <class SharedBytes>
int most_stages(const AttentionTraits& traits, KernelConfig config, const Arch& arch, int most,
                const SharedBytes& shared_bytes) {
  for (config.stages = most; config.stages > 2; --config.stages) {
    if (SharedMemoryNeed{arch, shared_bytes(traits, config), config.ctas_per_sm}.fits()) break;
  }
  return config.stages;
}

}  // namespace fa2::forward_rules
