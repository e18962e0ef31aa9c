// What attention computes: a value without pointers.
#pragma once

#include <fa2/row.h>
#include <fa2/types.h>

#include <optional>
#include <string>

namespace fa2 {

/// Attention: O = softmax(S) V, for every batch entry and query head (FlashAttention-2, arXiv 2307.08691, section 2.1).
/// S = scale * Q K^T. With `softcap` scores are capped, then with `alibi` biased. The score of a key that the mask, a window
/// or a chunk hides is -infinity.
///
/// Variants combine freely. The presence of a variant specialises the kernel. Its numbers (cap, slopes, logits) belong to the
/// call: see AttentionArgs. The widths of windows and chunks belong to the problem, because they change the amount of work.
///
/// Logical shapes: Q (batch, heads_q, seqlen_q, head_dim), K (batch, heads_kv, seqlen_k, head_dim),
/// V (batch, heads_kv, seqlen_k, head_dim_v), O (batch, heads_q, seqlen_q, head_dim_v),
/// LSE (batch, heads_q, seqlen_q). AttentionArgs gives the strides in memory.
///
/// One member, one row: comparison, hash, texts, JSON, keys, tuning buckets, the C struct and flags follow from it.
struct AttentionProblem {
  DType dtype = DType::f16;
  std::int32_t head_dim = 0;    ///< columns of Q and K; a multiple of 8, 8..576
  std::int32_t head_dim_v = 0;  ///< columns of V and O; a multiple of 8, 8..512; 0 means head_dim
  MaskKind mask = MaskKind::none;

  /// A sliding window, in addition to the mask: query i sees key j only if c - window_left <= j <= c + window_right, where
  /// c = i + seqlen_k - seqlen_q, or i under causal_top_left (FlashAttention's window_size). In keys; >= 0; absent: no bound on
  /// the left.
  std::optional<std::int64_t> window_left = std::nullopt;
  /// The bound on the right; in keys; >= 0; absent: none. A causal mask makes it redundant, because it hides keys after c.
  std::optional<std::int64_t> window_right = std::nullopt;
  /// Chunked local attention, in addition to the mask and windows: query i sees key j only if
  /// j / attention_chunk == c / attention_chunk, rounded down, with the c of windows (FlashAttention-3's attention_chunk). So a query
  /// with a c below 0 sees no key. In keys; >= 1; absent: one chunk holds everything.
  std::optional<std::int64_t> attention_chunk = std::nullopt;
  /// Scores become softcap * tanh(score / softcap). Needs AttentionArgs::softcap.
  bool softcap = false;
  /// Scores become score - slope * |i + seqlen_k - seqlen_q - j|, after the cap and under every mask. Needs
  /// AttentionArgs::alibi_slopes.
  bool alibi = false;
  /// A logit per head joins every row's softmax but has no value, so a row's probabilities add up to less than 1. Needs
  /// AttentionArgs::sinks. A row that sees no key has O = 0, and the sink as its LSE.
  bool sinks = false;
  /// Probabilities are dropped at random, and the others are divided by 1 - probability: O = (dropped P / (1 - probability)) V.
  /// LSE covers all probabilities. Needs AttentionArgs::dropout.
  bool dropout = false;
  /// The queries are two pieces of a longer sequence, which has as many queries as keys: a shard of it in context parallelism. Needs
  /// AttentionArgs::query_pieces, which says where each query stands. Its position takes the place of c in the mask, windows, chunks
  /// and ALiBi, and of its number in dropout and in texts of scores, for which the sequence has seqlen_k queries. So a shard's output
  /// and gradients are slices of the whole sequence's. Not with causal_top_left. Lengths, windows and chunks are below 2^30.
  bool query_pieces = false;
  /// Sequences differ in length, and only the device knows the lengths (AttentionArgs::cu_seqlens_q, seqused_q, ...). One plan
  /// and one captured graph serve changing lengths. seqlen_q and seqlen_k are then upper bounds: kernels cut a longer sequence.
  /// Each sequence's own lengths align its mask, window, chunks and bias.
  bool varlen = false;
  /// Rows per page; any number > 0; 0: not paged. K and V are then (page_count, page_size, heads_kv, dim), and
  /// AttentionArgs::page_table lists each sequence's pages. Needs varlen; total_k must be 0. AttentionArgs::seqused_k has lengths.
  std::int32_t page_size = 0;
  /// Entries of AttentionArgs::page_table outside 0 .. page_count - 1, such as -1, name no page: no query sees their keys. With
  /// page_size 1 the table lists single keys of each sequence, as sparse attention selects them (DeepSeek's top-k indices).
  /// Masks, windows, chunks and bias count such keys too: positions are places in the table. Needs page_size.
  bool missing_pages = false;
  /// The element type of K and V. Unless it is `same`, a key is its row of K times AttentionArgs::k_descale, and a value its row of V
  /// times v_descale. With e4m3, for 8-bit caches, head_dim and head_dim_v are multiples of 16, and rows begin at multiples of 16
  /// bytes. With ds_mla, dtype is bf16, head_dim 576, head_dim_v 512, and values_in_keys true; strides count bytes. Gradients need
  /// `same`.
  KvType kv_type = KvType::same;
  /// V is the first head_dim_v columns of K, as in the latents of multi-head latent attention (MLA, arXiv 2405.04434): kernels read
  /// keys and values once. AttentionArgs::v must be `k`, with its strides, and head_dim_v at most head_dim. Gradients need false.
  bool values_in_keys = false;
  /// O and LSE of a sequence have the same bits as in a batch of that sequence alone, whatever the batch, its order and its
  /// longest sequence. For this, split boundaries are fixed, one config serves every size, and tuning records are ignored. It
  /// costs time, most for long prompts. If false, bits depend on the batch. Every run gives the same bits in either case.
  /// Gradients are those of Determinism::bitwise. Dropout masks still depend on the batch index.
  bool batch_invariant = false;
  /// The base of the logarithm in LSE. A backward takes the LSE, and the gradient of it, in the base of its problem.
  LseBase lse_base = LseBase::natural;
  /// The call also writes the largest logit of each batch entry and query head (AttentionArgs::max_logits). Gradients ignore this
  /// field.
  bool max_logits = false;
  /// dK and dV are float32, not rounded: parts of a sum, as over the shards of a sequence in context parallelism. Forwards ignore this
  /// field.
  bool float32_dk_dv = false;
  /// dQ is float32, not rounded: a part of a sum over keys that arrive one after the other. Forwards ignore this field.
  bool float32_dq = false;
  /// O is float32, not rounded, and out_strides count its elements: parts that are merged later, as over the ranks that share keys. Q
  /// keeps the problem's dtype. Gradients need false.
  bool float32_out = false;
  /// SMs that launches leave to other kernels, such as communication; 0 .. the device's SMs - 1. Persistent kernels launch blocks for
  /// the other SMs alone, and split KV counts with those. Kernels with one block per tile cannot be limited
  /// (KernelReport::is_persistent). The bits of batch_invariant and of bitwise gradients do not depend on it.
  std::int32_t sm_margin = 0;
  /// Functions of scores in the caller's words: the number of make_score_text(); 0: none. They come after softcap and ALiBi, and before
  /// every mask.
  std::int64_t score_text = 0;

  std::int64_t batch = 1;     ///< sequences; >= 0
  std::int64_t heads_q = 1;   ///< >= 1; query head h reads key/value head h / (heads_q / heads_kv)
  std::int64_t heads_kv = 0;  ///< divides heads_q (grouped-query attention); 0 means heads_q
  std::int64_t seqlen_q = 0;  ///< queries; 0 .. 2^31 - 1024
  std::int64_t seqlen_k = 0;  ///< keys; 0 .. 2^31 - 1024; 0 keys give O = 0
  /// Queries of all sequences, which lie one after the other: Q and O are then (total_q, heads_q, dim), and LSE is
  /// (heads_q, total_q). 0 .. 2^31 - 1024, and 0 without varlen. 0: Q, O and LSE have a batch dimension, and a sequence begins
  /// where its batch entry does.
  std::int64_t total_q = 0;
  std::int64_t total_k = 0;     ///< like total_q, for K and V
  std::int64_t page_count = 0;  ///< pages of K and V; with page_size 1 .. 2^31 - 1024, else 0

  /// A row per member, in the order of texts and keys.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using P = AttentionProblem;
    return take(
        row("dtype", &P::dtype).help("element type of Q and O, and of K and V unless kv_type says another"),
        row("head_dim", &P::head_dim)
            .along(Axis::column, 1)
            .help("head dimension of Q and K, a multiple of 8 in 8..576"),
        row("head_dim_v", &P::head_dim_v)
            .along(Axis::column, 1)
            .help("head dimension of V and O, a multiple of 8 in 8..512; 0: head_dim"),
        row("mask", &P::mask).option("mask").help("which keys a query sees"),
        row("window_left", &P::window_left)
            .option("window_left")
            .sizes()
            .help("sliding window: how many keys before its own a query sees"),
        row("window_right", &P::window_right)
            .option("window_right")
            .sizes()
            .help("how many keys after its own a query sees"),
        row("attention_chunk", &P::attention_chunk)
            .option("attention_chunk")
            .sizes(Axis::other, 1)
            .help("chunked local attention: a query sees only keys of its own chunk of so many"),
        row("softcap", &P::softcap).help("scores become cap * tanh(score / cap)"),
        row("alibi", &P::alibi).help("ALiBi: scores fall with the distance of the key, by a slope per head"),
        row("sinks", &P::sinks).help("attention sinks: a logit per head joins the softmax"),
        row("dropout", &P::dropout).help("probabilities are dropped at random"),
        row("query_pieces", &P::query_pieces).help("queries are two pieces of a longer sequence"),
        row("varlen", &P::varlen).help("sequences have lengths of their own, which only the device knows"),
        row("page_size", &P::page_size)
            .along(Axis::row, 1)
            .used_if("varlen")
            .help("rows per page of K and V; 0: they are not paged"),
        row("missing_pages", &P::missing_pages)
            .option("missing_pages")
            .used_if("page_size")
            .help(
                "entries of the page table that name no page hide their keys, as -1 in lists of single keys"),
        row("kv_type", &P::kv_type)
            .help("element type of K and V: that of Q, 8 bits, or the rows of DeepSeek-V3.2"),
        row("values_in_keys", &P::values_in_keys)
            .help("V is the first columns of K, as in latent attention (MLA)"),
        row("batch_invariant", &P::batch_invariant)
            .option("batch_invariant")
            .help("the bits of a sequence do not depend on the batch"),
        row("lse_base", &P::lse_base).option("lse_base").help("the base of the logarithm in LSE"),
        row("max_logits", &P::max_logits).help("the largest logit of each head is written"),
        row("float32_dk_dv", &P::float32_dk_dv).help("dK and dV are float32: parts of a sum"),
        row("float32_dq", &P::float32_dq).help("dQ is float32: a part of a sum"),
        row("float32_out", &P::float32_out).help("O is float32: a part of a merge"),
        row("sm_margin", &P::sm_margin)
            .option("sm_margin")
            .sizes(Axis::no_tensor)
            .help("SMs that persistent kernels leave to other kernels"),
        row("score_text", &P::score_text)
            .along(Axis::no_tensor, 0)
            .help("number of make_score_text(): functions of scores; 0: none"),
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

  /// Returns the same problem, with head_dim_v and heads_kv filled in where they are 0, and without a window_right that a causal
  /// mask makes redundant.
  FA2_API AttentionProblem normalized() const;

  friend bool operator==(const AttentionProblem& a, const AttentionProblem& b) {
    bool equal = true;
    visit([&](const char*, FieldRole, const auto& x, const auto& y) { equal = equal && x == y; }, a, b);
    return equal;
  }
  friend bool operator!=(const AttentionProblem& a, const AttentionProblem& b) { return !(a == b); }
};

FA2_API std::size_t hash_value(const AttentionProblem&);

/// Returns for example "f16 d128 causal_bottom_right window_left 4096 softcap batch 2 heads 32/8 seqlen 4096x4096". Names
/// head_dim_v if it differs from head_dim, and the variants that the problem has.
FA2_API std::string to_string(const AttentionProblem&);

}  // namespace fa2
