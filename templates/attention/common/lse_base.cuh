// The base of the logarithm in LSE (LseBase in fa2/types.h).
#pragma once

namespace fa2 {

/// Factors between an LSE, the same logarithm to base 2, in which kernels compute, and the natural one.
template <class Config>
struct LseUnit {
  static constexpr bool is_two = Config::lse_base == 1;
  static constexpr float of_log2 = is_two ? 1.0f : 0.693147180559945309f;
  static constexpr float of_natural = is_two ? 1.44269504088896341f : 1.0f;
  static constexpr float to_log2 = is_two ? 1.0f : 1.44269504088896341f;
};

}  // namespace fa2
