// A problem's fields on the command line.
#pragma once

#include <generator/kernel_spec.h>

#include <string>
#include <string_view>

namespace fa2 {

/// Returns "window_left 4096 softcap": the optional sizes that are given and the flags that are set.
std::string variants_of(const AttentionProblem& problem);
/// Returns "window_left softcap".
std::string variants_of(const AttentionTraits& traits);

/// Returns the flag that sets a field of a problem: "--head-dim-v" for "head_dim_v".
std::string flag_of(std::string_view field);

/// Returns every trait as `fa2 precompile` takes it: "--dtype f16 --head-dim 64 --head-dim-v 64 --mask none --alignment bytes16
/// --softcap".
std::string flags_of(const AttentionTraits& traits);

}  // namespace fa2
