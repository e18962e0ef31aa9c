// The plain value types of fa2's public interface. No CUDA header is needed to include them.
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

/// The driver's stream type, declared and never defined here: `CUstream` and `cudaStream_t` are both pointers
/// to it.
struct CUstream_st;

namespace fa2 {

/// The device that is no GPU: kernels are interpreted on the CPU, thread by thread and checked
/// (docs/interpreter.md). Its memory is host memory; it has no streams. Slow: for tests, and for machines
/// without a GPU.
inline constexpr int kInterpreterDevice = -2;

/// A CUDA stream. nullptr is the legacy default stream of the current context.
using Stream = CUstream_st*;

/// Element type of Q, K, V and O. Scores, softmax and the accumulator are float32 whatever the element type.
enum class DType : std::uint8_t { f16, bf16 };

/// Which keys a query may see.
///   none: all of them.
///   causal_bottom_right: query i sees key j iff j <= i + seqlen_k - seqlen_q, so that the last query sees every
///     key. FlashAttention's convention.
///   causal_top_left: query i sees key j iff j <= i.
enum class MaskKind : std::uint8_t { none, causal_bottom_right, causal_top_left };

/// What a kernel may assume of every row of Q, K, V and O.
///   bytes16: pointers and strides are multiples of 16 bytes, and strides are positive: what a Hopper GPU's
///     tensor memory accelerator can load. The fast kernels.
///   element: nothing beyond the alignment of one element (2 bytes); right for any view, and slower.
///   bytes16_any_order: multiples of 16 bytes, 0 and negative strides included, as of broadcast or reversed
///     tensors. On a Hopper GPU slower than bytes16, elsewhere the same kernels.
enum class RowAlignment : std::uint8_t { bytes16, element, bytes16_any_order };

/// The log-sum-exp written for a query that sees no key at all (its output row is 0 in either case).
///   positive_infinity: FlashAttention's convention.
///   negative_infinity: log(0), what merging partial results needs.
/// A query whose visible scores are all -inf counts as one that sees no key.
enum class EmptyRowLse : std::uint8_t { positive_infinity, negative_infinity };

constexpr std::size_t size_of(DType) {
  return 2;
}

FA2_API std::string_view to_string(DType);         ///< "f16", "bf16"
FA2_API std::string_view to_string(MaskKind);      ///< "none", "causal_bottom_right", "causal_top_left"
FA2_API std::string_view to_string(RowAlignment);  ///< "bytes16", "element", "bytes16_any_order"

}  // namespace fa2
