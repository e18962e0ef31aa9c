// WHAT is computed: a value without pointers.
#pragma once

#include <fa2/row.h>
#include <fa2/types.h>

#include <optional>
#include <string>

namespace fa2 {

/// One attention forward: O = softmax(S) V, for every batch and query head (FlashAttention-2, arXiv 2307.08691,
/// section 2.1). S = scale * Q K^T; with `softcap` it is capped, then with `alibi` biased, and it is -inf where the
/// mask or a window hides a key. Variants combine freely. That there is one specialises the kernel; its numbers (cap,
/// slopes, logits) are the arguments' business (AttentionArgs), the widths of windows are the problem's, because they
/// change how much work there is.
///
/// Logical shapes: Q (batch, heads_q, seqlen_q, head_dim), K (batch, heads_kv, seqlen_k, head_dim),
/// V (batch, heads_kv, seqlen_k, head_dim_v), O (batch, heads_q, seqlen_q, head_dim_v),
/// LSE (batch, heads_q, seqlen_q). The memory order is the arguments' business (AttentionArgs).
///
/// One member, one row: comparison, hash, texts, JSON, keys, tuning buckets, the C struct and flags follow from it.
struct AttentionProblem {
  DType dtype = DType::f16;
  std::int32_t head_dim = 0;    ///< of Q and K; a multiple of 8, 8..256
  std::int32_t head_dim_v = 0;  ///< of V and O; a multiple of 8, 8..256; 0 means head_dim
  MaskKind mask = MaskKind::none;

  /// A sliding window, on top of the mask: query i sees key j only if c - window_left <= j <= c + window_right, where
  /// c = i + seqlen_k - seqlen_q, or i under causal_top_left (FlashAttention's window_size). In keys, >= 0; absent: no
  /// bound on that side.
  std::optional<std::int64_t> window_left = std::nullopt;
  /// The same to the right. Under a causal mask, whose bound is c, it says nothing.
  std::optional<std::int64_t> window_right = std::nullopt;
  /// Scores become softcap * tanh(score / softcap). Takes AttentionArgs::softcap.
  bool softcap = false;
  /// Then slope * |i + seqlen_k - seqlen_q - j| is subtracted, under every mask. Takes AttentionArgs::alibi_slopes.
  bool alibi = false;
  /// A logit a head joins every row's softmax and has no value, so that a row's probabilities add up to less than 1.
  /// Takes AttentionArgs::sinks. A row that sees no key keeps O = 0; its LSE is the sink's.
  bool sinks = false;
  /// Probabilities are dropped at random, and what is kept is divided by the share that is kept on average:
  /// O = (dropped P / (1 - probability)) V. LSE is that of all probabilities. Takes AttentionArgs::dropout.
  bool dropout = false;
  /// Sequences have lengths of their own, which only the device knows (AttentionArgs::cu_seqlens_q and its like): one plan
  /// and one captured graph serve changing lengths. seqlen_q and seqlen_k are then the longest that a sequence may be; a
  /// longer one is cut. Masks, windows and biases are each sequence's: its own lengths align them.
  bool varlen = false;
  /// K and V are pages of so many rows, any number, (page_count, page_size, heads_kv, dim), and AttentionArgs::page_table
  /// says which a sequence has. Takes varlen, and no total_k; seqused_k says how long sequences are. 0: they are not paged.
  std::int32_t page_size = 0;
  /// Each sequence has the bits of O and LSE that it has alone, whatever is in the batch beside it, in whatever order, and
  /// however long the longest may be: keys are split at fixed borders, one configuration serves every size, no tuning
  /// record is followed. Slower, most where prompts are long. false: the fastest way, whose bits depend on the batch. Either
  /// gives the same bits in every run. Gradients are those of Determinism::bitwise. Dropout's masks are a place's in the batch.
  bool batch_invariant = false;

  std::int64_t batch = 1;     ///< >= 0
  std::int64_t heads_q = 1;   ///< >= 1; query head h reads key/value head h / (heads_q / heads_kv)
  std::int64_t heads_kv = 0;  ///< divides heads_q (grouped-query attention); 0 means heads_q
  std::int64_t seqlen_q = 0;  ///< 0 .. 2^31 - 1024
  std::int64_t seqlen_k = 0;  ///< 0 .. 2^31 - 1024; 0 keys give O = 0
  /// With varlen, 0 .. 2^31 - 1024: the rows of all sequences, which lie one after the other: Q and O are then
  /// (total_q, heads_q, dim), LSE (heads_q, total_q). 0: Q, O and LSE are batched as without varlen, and sequences begin
  /// where their batch entry does.
  std::int64_t total_q = 0;
  std::int64_t total_k = 0;     ///< the same of K and V
  std::int64_t page_count = 0;  ///< with page_size, 1 .. 2^31 - 1024: pages that K and V have; else 0

  /// A row per member, in the order of texts and keys.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using P = AttentionProblem;
    return take(
        row("dtype", &P::dtype).help("element type of Q, K, V and O"),
        row("head_dim", &P::head_dim)
            .along(Axis::column, 1)
            .help("head dimension of Q and K, a multiple of 8 in 8..256"),
        row("head_dim_v", &P::head_dim_v)
            .along(Axis::column, 1)
            .help("head dimension of V and O, a multiple of 8 in 8..256; 0: head_dim"),
        row("mask", &P::mask).option("mask").help("which keys a query sees"),
        row("window_left", &P::window_left)
            .option("window_left")
            .sizes()
            .help("sliding window: how many keys before its own a query sees"),
        row("window_right", &P::window_right)
            .option("window_right")
            .sizes()
            .help("how many keys after its own a query sees"),
        row("softcap", &P::softcap).help("scores become cap * tanh(score / cap)"),
        row("alibi", &P::alibi).help("ALiBi: scores fall with the distance of the key, by a slope per head"),
        row("sinks", &P::sinks).help("attention sinks: a logit per head joins the softmax"),
        row("dropout", &P::dropout).help("probabilities are dropped at random"),
        row("varlen", &P::varlen).help("sequences have lengths of their own, which only the device knows"),
        row("page_size", &P::page_size)
            .along(Axis::row, 1)
            .used_if("varlen")
            .help("rows per page of K and V; 0: they are not paged"),
        row("batch_invariant", &P::batch_invariant)
            .option("batch_invariant")
            .help("the bits of a sequence do not depend on the batch"),
        row("batch", &P::batch).sizes(Axis::entry).help("sequences"),
        row("heads_q", &P::heads_q).sizes(Axis::head, 1).help("query heads"),
        row("heads_kv", &P::heads_kv)
            .sizes(Axis::head, 1)
            .help("key and value heads, dividing heads_q; 0: heads_q"),
        row("seqlen_q", &P::seqlen_q)
            .option("max_seqlen_q")
            .sizes(Axis::row)
            .help("queries; with varlen of the longest sequence"),
        row("seqlen_k", &P::seqlen_k)
            .option("max_seqlen_k")
            .sizes(Axis::row)
            .help("keys; with varlen of the longest sequence"),
        row("total_q", &P::total_q)
            .sizes(Axis::row)
            .used_if("varlen")
            .help("queries of all sequences, packed; 0: batched"),
        row("total_k", &P::total_k)
            .sizes(Axis::row)
            .used_if("varlen")
            .help("keys of all sequences, packed; 0: batched"),
        row("page_count", &P::page_count)
            .sizes(Axis::entry)
            .used_if("page_size")
            .help("pages that K and V have"));
  }

  /// Calls field(name, role, value...) for each field in order, with its values in all of `problems`.
  template <class Field, class... Problem>
  static constexpr void visit(Field&& field, Problem&... problems) {
    each_row<AttentionProblem>(
        [&](const auto& row) { field(row.text.name, row.text.role, problems.*row.member...); });
  }

  /// The same problem with the 0 defaults of head_dim_v and heads_kv filled in, and without a window_right that a
  /// causal mask makes idle.
  FA2_API AttentionProblem normalized() const;

  friend bool operator==(const AttentionProblem& a, const AttentionProblem& b) {
    bool equal = true;
    visit([&](const char*, FieldRole, const auto& x, const auto& y) { equal = equal && x == y; }, a, b);
    return equal;
  }
  friend bool operator!=(const AttentionProblem& a, const AttentionProblem& b) { return !(a == b); }
};

FA2_API std::size_t hash_value(const AttentionProblem&);

/// "f16 d128 causal_bottom_right window_left 4096 softcap batch 2 heads 32/8 seqlen 4096x4096"; head_dim_v and
/// variants where they matter.
FA2_API std::string to_string(const AttentionProblem&);

}  // namespace fa2
