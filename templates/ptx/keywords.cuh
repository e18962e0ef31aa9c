// The CUDA keywords the templates use, under names that another compiler can define away.
#pragma once

#define FA2_DEVICE __device__ __forceinline__
#define FA2_UNROLL _Pragma("unroll")
#define FA2_NO_UNROLL _Pragma("unroll 1")
#define FA2_KERNEL(threads, ctas_per_sm) extern "C" __global__ void __launch_bounds__(threads, ctas_per_sm)
#define FA2_KERNEL_PARAMETER(Type) const __grid_constant__ Type

namespace fa2 {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

/// Element types, as tags: values travel as bits.
struct Half {};
struct BFloat16 {};

}  // namespace fa2
