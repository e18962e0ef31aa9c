// The configs that a test tries.
#pragma once

#include <fa2/config.h>

#include <vector>

namespace fa2::test {

/// Returns a small space whole: a GPU's tests compile some hundred configs per minute and core, the
/// interpreter's one per second. From a large space it returns an even spread, and enough others that every
/// value of every tunable occurs.
std::vector<KernelConfig> spread_over(const std::vector<KernelConfig>& all);

}  // namespace fa2::test
