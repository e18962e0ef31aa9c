// A problem's fields on the command line.
#pragma once

#include <generator/kernel_spec.h>

#include <string>
#include <string_view>

namespace fa2 {

/// "window_left 4096 softcap": the optional sizes that a problem has, and what it turns on; empty if nothing.
std::string variants_of(const AttentionProblem& problem);
/// "window_left softcap".
std::string variants_of(const AttentionTraits& traits);

/// The flag that sets a field of a problem: "--head-dim-v" for "head_dim_v".
std::string flag_of(std::string_view field);

/// "--dtype f16 --head-dim 64 --head-dim-v 64 --mask none --alignment bytes16 --softcap": every trait, as
/// `fa2 precompile` takes it.
std::string flags_of(const AttentionTraits& traits);

}  // namespace fa2
