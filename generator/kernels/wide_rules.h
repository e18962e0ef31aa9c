// What the kernels for wide heads compute.
#pragma once

#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <algorithm>
#include <cstdint>

namespace fa2::wide_rules {

inline constexpr std::int32_t kLeastDim = 264;  ///< the first head dim that other kernels do not compute

/// Returns whether other kernels leave these traits to the wide ones.
inline bool is_wide(const AttentionTraits& traits) {
  return traits.values_in_keys || std::max(traits.head_dim, traits.head_dim_v) >= kLeastDim;
}

inline void check(const AttentionTraits& traits, BrokenRules& rules) {
  rules.expect(
      is_wide(traits),
      "head_dim = {} and head_dim_v = {}, one must be at least {} for wide heads, or values_in_keys true",
      traits.head_dim, traits.head_dim_v, kLeastDim);
}

}  // namespace fa2::wide_rules
