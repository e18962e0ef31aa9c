// WHAT is computed: a value without pointers.
#pragma once

#include <fa2/types.h>

#include <string>

namespace fa2 {

/// One attention forward: O = softmax(scale * Q K^T + mask) V, for every batch and query head
/// (FlashAttention-2, arXiv 2307.08691, section 2.1).
///
/// Logical shapes: Q (batch, heads_q, seqlen_q, head_dim), K (batch, heads_kv, seqlen_k, head_dim),
/// V (batch, heads_kv, seqlen_k, head_dim_v), O (batch, heads_q, seqlen_q, head_dim_v),
/// LSE (batch, heads_q, seqlen_q). The memory order is the arguments' business (AttentionArgs).
///
/// dtype, mask, row_alignment and the head dims specialise the compiled kernel. batch, heads and sequence
/// lengths never do: they size the grid and choose the tuning record.
struct AttentionProblem {
  DType dtype = DType::f16;
  MaskKind mask = MaskKind::none;
  RowAlignment row_alignment = RowAlignment::bytes16;
  std::int32_t head_dim = 0;    ///< of Q and K; a multiple of 8, 8..256
  std::int32_t head_dim_v = 0;  ///< of V and O; a multiple of 8, 8..256; 0 means head_dim
  std::int64_t batch = 1;       ///< >= 0
  std::int64_t heads_q = 1;     ///< >= 1; query head h reads key/value head h / (heads_q / heads_kv)
  std::int64_t heads_kv = 0;    ///< divides heads_q (grouped-query attention); 0 means heads_q
  std::int64_t seqlen_q = 0;    ///< 0 .. 2^31 - 1024
  std::int64_t seqlen_k = 0;    ///< 0 .. 2^31 - 1024; 0 keys give O = 0

  /// The same problem with the 0 defaults of head_dim_v and heads_kv filled in.
  FA2_API AttentionProblem normalized() const;

  friend bool operator==(const AttentionProblem& a, const AttentionProblem& b) {
    return a.dtype == b.dtype && a.mask == b.mask && a.row_alignment == b.row_alignment &&
           a.head_dim == b.head_dim && a.head_dim_v == b.head_dim_v && a.batch == b.batch &&
           a.heads_q == b.heads_q && a.heads_kv == b.heads_kv && a.seqlen_q == b.seqlen_q &&
           a.seqlen_k == b.seqlen_k;
  }
  friend bool operator!=(const AttentionProblem& a, const AttentionProblem& b) { return !(a == b); }
};

FA2_API std::size_t hash_value(const AttentionProblem&);

/// "f16 d128 causal_bottom_right batch 2 heads 32/8 seqlen 4096x4096"; head_dim_v and alignment where they
/// matter.
FA2_API std::string to_string(const AttentionProblem&);

}  // namespace fa2
