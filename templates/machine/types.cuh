// Scalar types of device code.
#pragma once

namespace fa2 {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

/// Element types, as tags: values travel as bits.
struct Half {};
struct BFloat16 {};

}  // namespace fa2
