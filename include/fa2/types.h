// The plain value types of fa2's public interface. They need no CUDA header.
#pragma once

#include <fa2/version.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#if defined(FA2_STATIC)
#define FA2_API
#else
#define FA2_API __attribute__((visibility("default")))
#endif

/// The driver's stream type, only declared here: `CUstream` and `cudaStream_t` are pointers to it.
struct CUstream_st;

namespace fa2 {

/// The CPU interpreter (docs/interpreter.md), a device that runs kernels thread by thread and checks each access. Its memory
/// is host memory, and it has no streams. It is slow: use it in tests and on machines without a GPU.
inline constexpr int kInterpreterDevice = -2;

/// A CUDA stream. nullptr is the legacy default stream of the current context.
using Stream = CUstream_st*;

/// The element type of Q and O, and of K and V unless KvType names another. Scores, softmax and accumulators are always float32.
enum class DType : std::uint8_t { f16, bf16 };

/// The element type of K and V.
///   same: that of Q and O.
///   e4m3: 8 bits, as PyTorch's float8_e4m3fn: 4 bits of exponent, 3 of mantissa, no infinities; at most 448 in magnitude.
///   scaled: that of Q and O, but with factors as e4m3 has them. Plans widen 8-bit keys to it where that pays.
///   ds_mla: rows of 656 bytes, in which DeepSeek-V3.2 caches latents (vLLM's fp8_ds_mla): 512 columns of e4m3; 4 float32 factors,
///     each of 128 of them; 64 columns of bfloat16. K has all 576 columns, V the first 512.
enum class KvType : std::uint8_t { same, e4m3, scaled, ds_mla };

/// Which keys a query may see.
///   none: all of them.
///   causal_bottom_right: query i sees key j iff j <= i + seqlen_k - seqlen_q, so the last query sees every key.
///     This is FlashAttention's convention.
///   causal_top_left: query i sees key j iff j <= i.
enum class MaskKind : std::uint8_t { none, causal_bottom_right, causal_top_left };

/// The alignment that a kernel may assume for every row of Q, K, V and O.
///   bytes16: pointers and strides are multiples of 16 bytes, and strides are positive. Hopper's TMA needs this; it selects
///     the fast kernels.
///   element: pointers and strides are multiples of one element (2 bytes). This fits every view and is slower. Rows of 8-bit K
///     and V begin at multiples of 16 bytes nevertheless.
///   bytes16_any_order: pointers and strides are multiples of 16 bytes; strides may be 0 or negative (broadcast or reversed
///     tensors). It is slower than bytes16 on Hopper and selects the same kernels elsewhere.
enum class RowAlignment : std::uint8_t { bytes16, element, bytes16_any_order };

/// The log-sum-exp of a query that sees no key. Its output row is 0 in either case.
///   positive_infinity: FlashAttention's convention.
///   negative_infinity: log(0), which merging partial outputs needs.
/// A query whose visible scores are all -inf counts as one that sees no key.
enum class EmptyRowLse : std::uint8_t { positive_infinity, negative_infinity };

/// The logarithm of every LSE that a call writes or reads.
///   natural: log(sum of exp(S)), FlashAttention's convention.
///   two: log2(sum of exp(S)), FlashInfer's convention: the natural one times log2(e). The LSE of a row without a key is the same
///     infinity in either base.
enum class LseBase : std::uint8_t { natural, two };

constexpr std::size_t size_of(DType) {
  return 2;
}

FA2_API std::string_view to_string(DType);     ///< returns "f16" or "bf16"
FA2_API std::string_view to_string(KvType);    ///< returns "same", "e4m3" or "scaled"
FA2_API std::string_view to_string(LseBase);   ///< returns "natural" or "two"
FA2_API std::string_view to_string(MaskKind);  ///< returns "none", "causal_bottom_right" or "causal_top_left"
FA2_API std::string_view to_string(RowAlignment);  ///< returns "bytes16", "element" or "bytes16_any_order"

}  // namespace fa2
