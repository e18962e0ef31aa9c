// CUDA keywords that the templates use, under names that another compiler can define away.
#pragma once

#include "machine/types.cuh"

#define FA2_DEVICE __device__ __forceinline__
#define FA2_UNROLL _Pragma("unroll")
#define FA2_NO_UNROLL _Pragma("unroll 1")
#define FA2_PRAGMA(text) _Pragma(#text)
#define FA2_UNROLL_BY(count) FA2_PRAGMA(unroll count)
#define FA2_KERNEL(threads, ctas_per_sm) extern "C" __global__ void __launch_bounds__(threads, ctas_per_sm)
#define FA2_KERNEL_PARAMETER(Type) const __grid_constant__ Type
