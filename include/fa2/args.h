// The pointers, strides and scalars of one call. Never part of a kernel's identity.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <optional>

namespace fa2 {

/// Distances in ELEMENTS between neighbours along each dimension of a (batch, head, row, head_dim) tensor.
/// The last dimension is contiguous. Inputs may have any strides, 0 and negative ones included; O's rows must
/// not overlap.
struct TensorStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;

  /// Contiguous (batch, seqlen, heads, dim).
  static TensorStrides bshd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
    return {seqlen * heads * dim, dim, heads * dim};
  }
  /// Contiguous (batch, heads, seqlen, dim).
  static TensorStrides bhsd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
    return {heads * seqlen * dim, seqlen * dim, dim};
  }
};

/// One call's data. Device pointers of the plan's device, of the problem's dtype.
struct AttentionArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  /// Optional float32 (batch, heads_q, seqlen_q), contiguous: natural log of sum over visible keys of
  /// exp(scale * score).
  float* lse = nullptr;

  TensorStrides q_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
  TensorStrides o_strides;

  /// Any finite value, negative and 0 included; unset means 1 / sqrt(head_dim).
  std::optional<float> softmax_scale;
  /// > 0 where the problem has a softcap, else 0.
  float softcap = 0;
  /// Where the problem has ALiBi, else null: float32 (heads_q), or contiguous (batch, heads_q) if
  /// alibi_slopes_per_batch. Of either sign. FlashAttention's LSE under a causal mask lacks slope * (i + seqlen_k -
  /// seqlen_q), which is the same for all keys of a row; this library's has it.
  const float* alibi_slopes = nullptr;
  bool alibi_slopes_per_batch = false;
  /// Where the problem has sinks, else null: float32 (heads_q). The LSE counts them; -infinity is none.
  const float* sinks = nullptr;
  EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity;
};

/// Arguments for contiguous (batch, seqlen, heads, dim) tensors.
FA2_API AttentionArgs bshd_args(const AttentionProblem&, const void* q, const void* k, const void* v, void* o,
                                float* lse = nullptr);
/// Arguments for contiguous (batch, heads, seqlen, dim) tensors.
FA2_API AttentionArgs bhsd_args(const AttentionProblem&, const void* q, const void* k, const void* v, void* o,
                                float* lse = nullptr);

}  // namespace fa2
