// Bytes of elements that ranks exchange.
#pragma once

#include <cstdint>

namespace fa2 {

inline constexpr std::int64_t kElementBytes = 2;  ///< of Q, K and V, and of O unless it is float32
inline constexpr std::int64_t kFloatBytes = 4;

}  // namespace fa2
