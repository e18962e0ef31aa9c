// What tests try of a space of configurations.
#pragma once

#include <fa2/config.h>

#include <vector>

namespace fa2::test {

/// All of a small space: a GPU's tests compile some hundred configurations a minute and core, the interpreter's one a second. Of
/// a large one a few, evenly spread, and so many more that every value of every tunable is there.
std::vector<KernelConfig> spread_over(const std::vector<KernelConfig>& all);

}  // namespace fa2::test
