// A problem's fields on the command line.
#pragma once

#include <generator/kernel_spec.h>

#include <string>
#include <string_view>

namespace fa2 {

/// The flag that sets a field of a problem: "--head-dim-v" for "head_dim_v".
std::string flag_of(std::string_view field);

/// "--dtype f16 --head-dim 64 --head-dim-v 64 --mask none --alignment bytes16": every trait.
std::string flags_of(const AttentionTraits& traits);

}  // namespace fa2
