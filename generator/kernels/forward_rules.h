// Rules of forward kernels whose rings fill the shared memory.
#pragma once

#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

namespace fa2::forward_rules {

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
