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

/// Which probabilities are dropped: a function of these numbers and of where a probability stands, (batch, query head,
/// query, key), of packed sequences the sequence and its own rows. The same whatever kernel runs, on every device, in the
/// backward as in the forward. dropout_mask() tells.
struct Dropout {
  float probability = 0;  ///< of being dropped; 0 <= probability < 1, exact to 2^-32
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< another mask for every one, such as the number of the call
  /// Optional: the seed and after it the offset, on the device, at a multiple of 8 bytes; the two above are then 0. A captured
  /// graph reads them anew in each launch.
  const std::uint64_t* state = nullptr;
};

/// One call's data. Device pointers of the plan's device, of the problem's dtype.
struct AttentionArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  /// Optional float32 (batch, heads_q, seqlen_q), or (heads_q, total_q) of packed sequences, contiguous: natural log of
  /// the sum of exp(S) over the keys that a query sees, and of its head's sink.
  float* lse = nullptr;

  TensorStrides q_strides;  ///< of packed sequences, batch strides say nothing
  TensorStrides k_strides;  ///< `batch`: with pages, from one to the next
  TensorStrides v_strides;
  TensorStrides o_strides;

  /// Where the problem has total_q (total_k), else null: int32 (batch + 1) on the device. Sequence b of Q and O (K and V)
  /// is the rows [cu_seqlens[b], cu_seqlens[b + 1]); rows of no sequence may hold anything, and those of O keep what they
  /// hold. Entries neither descend nor leave [0, total], and of no sequence more rows count than seqlen_q (seqlen_k): what is
  /// too much is cut off without a word. With FA2_CHECK=1 it is an InvalidRequest before the launch: run() then copies the
  /// tables to the host, which waits for the stream, unless that captures. The interpreter always checks them.
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_k = nullptr;
  /// Optional with varlen: int32 (batch) on the device, how many of a sequence's rows count, from its first on: 0 .. its
  /// length. The others are as rows of no sequence.
  const std::int32_t* seqused_q = nullptr;
  const std::int32_t* seqused_k = nullptr;
  /// Where the problem has pages, else null: int32 (batch, ceil(seqlen_k / page_size)) on the device. Key j of sequence b is
  /// row j % page_size of page page_table[b, j / page_size], of K and of V. Entries beyond a sequence's length are not read, nor
  /// do rows beyond it count. Sequences may share pages. One that is outside [0, page_count) is taken for the nearest inside;
  /// with FA2_CHECK=1, and by the interpreter, it is an InvalidRequest, as above.
  const std::int32_t* page_table = nullptr;
  std::int64_t page_table_stride = 0;  ///< from one sequence to the next, 0 .. 2^31 - 1

  /// Any finite value, negative and 0 included; unset means 1 / sqrt(head_dim).
  std::optional<float> softmax_scale;
  /// In units of scaled scores: finite and above 0 where the problem has a softcap, else 0.
  float softcap = 0;
  /// Where the problem has ALiBi, else null: float32 (heads_q), or contiguous (batch, heads_q) if
  /// alibi_slopes_per_batch. Of either sign. The LSE is that of the biased scores. FlashAttention's, under a causal
  /// mask, is larger by slope * (i + seqlen_k - seqlen_q): it adds slope * j instead, the same but for a constant a row.
  const float* alibi_slopes = nullptr;
  bool alibi_slopes_per_batch = false;
  /// Where the problem has sinks, else null: float32 (heads_q), in units of scaled scores. -infinity is none.
  const float* sinks = nullptr;
  /// Where the problem has dropout, else as it is.
  Dropout dropout = {};
  EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity;

  /// Optional: AttentionPlan::workspace_bytes() bytes at a multiple of 256, which overlap nothing else. Fill them with
  /// zeros once, before their first launch, and leave them to launches then: where these want zeros they leave zeros. They
  /// belong to one launch at a time: those of one stream may share them, of whichever plans. Null: the context lends what is needed. Not looked at where nothing is.
  void* workspace = nullptr;

  /// Calls number(variant, name, is_used, value...) for what each variant of `problem` takes of `args`: `variant` names
  /// the problem's field, `name` this struct's. A float is above 0; a pointer's are a number a query head, and of each
  /// batch where the bool that follows says so.
  template <class Number, class Args>
  static constexpr void visit_numbers(Number&& number, const AttentionProblem& problem, Args& args) {
    number("softcap", "softcap", problem.softcap, args.softcap);
    number("alibi", "alibi_slopes", problem.alibi, args.alibi_slopes, args.alibi_slopes_per_batch);
    number("sinks", "sinks", problem.sinks, args.sinks);
  }
};

/// Arguments for contiguous (batch, seqlen, heads, dim) tensors, or (total, heads, dim) of packed sequences.
FA2_API AttentionArgs bshd_args(const AttentionProblem&, const void* q, const void* k, const void* v, void* o,
                                float* lse = nullptr);
/// Arguments for contiguous (batch, heads, seqlen, dim) tensors, or (heads, total, dim) of packed sequences.
FA2_API AttentionArgs bhsd_args(const AttentionProblem&, const void* q, const void* k, const void* v, void* o,
                                float* lse = nullptr);

}  // namespace fa2
