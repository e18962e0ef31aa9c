// What the kernels for wide heads compute.
#pragma once

#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <algorithm>

namespace fa2::wide_rules {

inline constexpr HeadDims kNarrow;  ///< what other kernels compute

/// Returns whether other kernels leave these traits to the wide ones.
inline bool is_wide(const AttentionTraits& traits) {
  return traits.values_in_keys || std::max(traits.head_dim, traits.head_dim_v) > kNarrow.most;
}

inline void check(const AttentionTraits& traits, BrokenRules& rules) {
  rules.expect(
      is_wide(traits),
      "head_dim = {} and head_dim_v = {}, one must be above {} for wide heads, or values_in_keys true",
      traits.head_dim, traits.head_dim_v, kNarrow.most);
}

}  // namespace fa2::wide_rules
