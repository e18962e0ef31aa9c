// The pointers, strides and scalars of one call. They are never part of a kernel's key.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <optional>

namespace fa2 {

class BlockMap;       // fa2/block_map.h
struct ScoreCapture;  // fa2/score_text.h

/// Distances between neighbours along each dimension of a (batch, head, row, head_dim) tensor; in elements. The last dimension is
/// contiguous. Inputs may have any strides, even 0 or negative ones. Rows of O must not overlap.
struct TensorStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;

  /// Returns the strides of a contiguous (batch, seqlen, heads, dim) tensor.
  static TensorStrides bshd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
    return {seqlen * heads * dim, dim, heads * dim};
  }
  /// Returns the strides of a contiguous (batch, heads, seqlen, dim) tensor.
  static TensorStrides bhsd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
    return {heads * seqlen * dim, seqlen * dim, dim};
  }
};

/// Which probabilities are dropped. This follows from these numbers and from (batch, query head, query, key) alone; queries and
/// keys of packed sequences count from their sequence's first row, and query_pieces give queries other numbers. So every kernel, every device, forward and backward agree.
/// dropout_mask() writes the result.
struct Dropout {
  float probability = 0;  ///< probability of being dropped; 0 <= probability < 1, exact to 2^-32
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< each value gives another mask; for example the number of the call
  /// Optional: seed and offset on the device, at a multiple of 8 bytes; the two fields above must then be 0. A captured graph
  /// reads them in each launch.
  const std::uint64_t* state = nullptr;
};

/// Where the queries of a call stand in their sequence (AttentionProblem::query_pieces): query i has the position i + first if
/// i < split, else i + second. A causal mask lets it see the keys up to its position. A zigzag shard r of P ranks, of sequences of
/// 2 P chunks of c queries, has split = c, first = r c and second = (2 P - 2 - r) c.
///
/// Positions lie in -2^29 .. 2^30 - 1. With dropout all three numbers are multiples of 16; split may also be the number of queries.
struct QueryPieces {
  std::int64_t split = 0;   ///< queries of the first piece; 0 .. seqlen_q
  std::int64_t first = 0;   ///< position of query 0, if the first piece has it
  std::int64_t second = 0;  ///< position less number of the second piece's queries; >= first
  /// With varlen, else null: int32 (batch, 3) on the device, contiguous. Each sequence's split, first and second; the three numbers
  /// above must then be 0. Kernels clamp numbers that are out of range.
  const std::int32_t* table = nullptr;
};

/// The data of one call: pointers to memory of the plan's device. Q and O have the problem's dtype, K and V its kv_type. With float32_out
/// O is float32.
struct AttentionArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  /// Optional: contiguous float32 (batch, heads_q, seqlen_q), or (heads_q, total_q) if packed. The logarithm, to the problem's
  /// lse_base, of the sum of exp(S) over the keys that a query sees, and over its head's sink.
  float* lse = nullptr;
  /// With max_logits, else null: contiguous float32 (batch, heads_q). The largest score of any query and a key that it sees, as it
  /// enters the softmax: scaled, after softcap and ALiBi. Sinks and dropout do not count. -infinity if no query sees a key. The call
  /// initialises it. The same bits in every run.
  float* max_logits = nullptr;

  TensorStrides q_strides;  ///< `batch` is ignored if Q is packed
  TensorStrides k_strides;  ///< `batch`: from one page to the next if K is paged; ignored if K is packed
  TensorStrides v_strides;
  TensorStrides out_strides;

  /// With total_q (total_k), else null: int32 (batch + 1) on the device. Sequence b of Q and O (K and V) is the rows
  /// [cu_seqlens[b], cu_seqlens[b + 1]). Rows of no sequence may hold anything; kernels do not write those of O. Entries must not
  /// descend and must lie in [0, total], and a sequence must have at most seqlen_q (seqlen_k) rows. Kernels cut what exceeds these
  /// bounds, without a message. With FA2_CHECK=1 run() throws InvalidRequest instead: it copies the tables to the host and so waits
  /// for the stream, unless the stream captures. The interpreter always checks.
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_k = nullptr;
  /// Optional with varlen: int32 (batch) on the device. How many leading rows of each sequence count; 0 .. its length. The others
  /// are treated as rows of no sequence.
  const std::int32_t* seqused_q = nullptr;
  const std::int32_t* seqused_k = nullptr;
  /// With page_size, else null: int32 (batch, ceil(seqlen_k / page_size)) on the device. Key j of sequence b is row j % page_size
  /// of page page_table[b, j / page_size], of K and of V. Kernels ignore entries and rows beyond a sequence's length. Sequences may
  /// share pages. An entry outside [0, page_count) names no page if the problem has missing_pages. Otherwise kernels replace it by
  /// the nearest one inside, and FA2_CHECK=1 and the interpreter report it, as above.
  const std::int32_t* page_table = nullptr;
  std::int64_t page_table_stride = 0;  ///< from one sequence's row to the next; elements; 0 .. 2^31 - 1

  /// Optional unless kv_type is `same`, else null: float32 (batch, heads_kv) on the device, of any strides, even 0; those of rows are
  /// ignored. The factors of each sequence's K and V, per key/value head: FlashAttention-3's k_descale and v_descale. S is scaled
  /// by k_descale before softcap and bias, and O by v_descale, which LSE does not show. Null: 1.
  const float* k_descale = nullptr;
  const float* v_descale = nullptr;
  TensorStrides k_descale_strides;
  TensorStrides v_descale_strides;

  /// Any finite value, even 0 or a negative one; unset means 1 / sqrt(head_dim).
  std::optional<float> softmax_scale;
  /// The cap; in units of scaled scores; finite and > 0 if the problem has a softcap, else 0.
  float softcap = 0;
  /// With alibi, else null: float32 (heads_q), or contiguous (batch, heads_q) if alibi_slopes_per_batch; of either sign. The LSE is
  /// that of the biased scores. FlashAttention adds slope * j under a causal mask, so its LSE is larger by
  /// slope * (i + seqlen_k - seqlen_q).
  const float* alibi_slopes = nullptr;
  bool alibi_slopes_per_batch = false;
  /// With sinks, else null: float32 (heads_q); in units of scaled scores; -infinity: no sink.
  const float* sinks = nullptr;
  /// With captures of score_text, else null and 0: one for each, in the order of ScoreTexts::captures. Read during the call.
  const ScoreCapture* captures = nullptr;
  std::int64_t capture_count = 0;
  /// Optional with a mask in score_text, else null and 0: the blocks that it shows, found by Context::map_blocks() for what captures,
  /// tables of lengths and query_pieces hold now, and BlockMap::version().
  const BlockMap* block_map = nullptr;
  std::uint64_t block_map_version = 0;
  /// Must keep its default unless the problem has dropout.
  Dropout dropout = {};
  /// Must keep its default unless the problem has query_pieces.
  QueryPieces query_pieces = {};
  EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity;

  /// Optional: AttentionPlan::workspace_bytes() bytes at a multiple of 256, which overlap nothing else. Fill them with zeros before
  /// their first launch, and do not write to them afterwards: each launch restores the zeros that it needs. One launch at a time
  /// may use them; launches of one stream may share them, even those of different plans. Null: the Context provides the memory.
  /// Ignored if no launch needs any.
  void* workspace = nullptr;

  /// A row per member. Operands are in the order of their rows.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using A = AttentionArgs;
    constexpr const char* per_row = "(heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q)";
    return take(
        row("q", &A::q, &A::q_strides).shape(kQueryShape).help("queries"),
        row("k", &A::k, &A::k_strides)
            .shape("(total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, "
                   "head_dim) if "
                   "page_table | (batch, seqlen_k, heads_kv, head_dim)")
            .or_type("float8_e4m3fn", "kv_type")
            .help("keys"),
        row("v", &A::v, &A::v_strides)
            .shape("(total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv, "
                   "head_dim_v) "
                   "if page_table | (batch, seqlen_k, heads_kv, head_dim_v)")
            .or_type("float8_e4m3fn", "kv_type")
            .like("k")
            .help("values"),
        row("out", &A::out, &A::out_strides)
            .shape(kOutputShape)
            .or_type("float32", "float32_out")
            .help("the output"),
        row("lse", &A::lse).shape(per_row).optional().help("log-sum-exp of each row, to the base lse_base"),
        row("max_logits", &A::max_logits)
            .shape("(batch, heads_q)")
            .used_if("max_logits")
            .help("largest score of each head that enters the softmax; -infinity without a visible key"),
        row("softcap", &A::softcap)
            .option("softcap")
            .used_if("softcap")
            .help("scores become softcap * tanh(score / softcap); scaled scores; finite and above 0"),
        row("alibi_slopes", &A::alibi_slopes)
            .shape("(heads_q) | (batch, heads_q)")
            .second_form("alibi_slopes_per_batch")
            .used_if("alibi")
            .help("slope * distance is subtracted from scores"),
        row("alibi_slopes_per_batch", &A::alibi_slopes_per_batch).help("alibi_slopes are (batch, heads_q)"),
        row("sinks", &A::sinks)
            .shape("(heads_q)")
            .used_if("sinks")
            .help("a logit per head that joins each row's softmax without a value; -infinity: none"),
        row("captures", &A::captures).help("what texts of scores read; one for each capture of score_text"),
        row("capture_count", &A::capture_count).help("captures"),
        row("block_map", &A::block_map)
            .optional()
            .help("which blocks the mask of score_text shows, as fa2_map_blocks() has found"),
        row("block_map_version", &A::block_map_version).help("the version of block_map"),
        row("dropout.state", &A::dropout, &Dropout::state)
            .tensor("dropout_state")
            .shape("(2)")
            .used_if("dropout")
            .optional()
            .help("seed and offset on the device, in place of the two numbers, which are 0 then"),
        row("query_pieces.table", &A::query_pieces, &QueryPieces::table)
            .tensor("query_pieces")
            .shape("(batch, 3)")
            .used_if("query_pieces")
            .optional()
            .help("with varlen: split, first and second of each sequence, in place of the numbers"),
        row("cu_seqlens_q", &A::cu_seqlens_q)
            .shape("(batch + 1)")
            .used_if("total_q")
            .help("where each sequence's rows of Q and O begin, and where the last one's end"),
        row("cu_seqlens_k", &A::cu_seqlens_k)
            .shape("(batch + 1)")
            .used_if("total_k")
            .without("page_table")
            .help("where each sequence's rows of K and V begin, and where the last one's end"),
        row("seqused_q", &A::seqused_q)
            .shape("(batch)")
            .used_if("varlen")
            .optional()
            .help("how many rows of Q count of each sequence"),
        row("seqused_k", &A::seqused_k)
            .shape("(batch)")
            .used_if("varlen")
            .optional()
            .help("how many rows of K and V count of each sequence"),
        row("page_table", &A::page_table)
            .shape("(batch, max_pages)")
            .stride("page_table_stride")
            .used_if("page_size")
            .help("the pages of each sequence"),
        row("page_table_stride", &A::page_table_stride)
            .help("elements from one sequence's pages to the next one's"),
        row("k_descale", &A::k_descale, &A::k_descale_strides)
            .shape("(batch, heads_kv)")
            .used_if("kv_type")
            .optional()
            .help("factors of 8-bit keys; absent: 1"),
        row("v_descale", &A::v_descale, &A::v_descale_strides)
            .shape("(batch, heads_kv)")
            .used_if("kv_type")
            .optional()
            .help("factors of 8-bit values; absent: 1"),
        row("workspace", &A::workspace)
            .optional()
            .help("memory for launches: see fa2_plan_workspace_bytes()"),
        row("softmax_scale", &A::softmax_scale)
            .option("softmax_scale")
            .help("any finite value; absent: 1 / sqrt(head_dim)"),
        row("dropout.probability", &A::dropout, &Dropout::probability)
            .option("dropout_p")
            .used_if("dropout")
            .help("share of probabilities that are dropped; at least 0 and below 1"),
        row("dropout.seed", &A::dropout, &Dropout::seed)
            .option("dropout_seed")
            .used_if("dropout")
            .help("seed of the mask"),
        row("dropout.offset", &A::dropout, &Dropout::offset)
            .option("dropout_offset")
            .used_if("dropout")
            .help("another mask for every value, such as the number of the call"),
        row("query_pieces.split", &A::query_pieces, &QueryPieces::split)
            .used_if("query_pieces")
            .help("queries of the first piece"),
        row("query_pieces.first", &A::query_pieces, &QueryPieces::first)
            .used_if("query_pieces")
            .help("query i of the first piece has the position i + first"),
        row("query_pieces.second", &A::query_pieces, &QueryPieces::second)
            .used_if("query_pieces")
            .help("query i of the second piece has the position i + second"),
        row("empty_row_lse", &A::empty_row_lse).help("the LSE of a query that sees no key; its O is 0"));
  }

  static constexpr const char* kQueryShape =
      "(total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim)";
  static constexpr const char* kOutputShape =
      "(total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v)";
};

/// Returns arguments for contiguous (batch, seqlen, heads, dim) tensors; packed ones are (total, heads, dim). With values_in_keys
/// V is in `k`, and `v` is ignored.
FA2_API AttentionArgs bshd_args(const AttentionProblem&, const void* q, const void* k, const void* v,
                                void* out, float* lse = nullptr);
/// Returns arguments for contiguous (batch, heads, seqlen, dim) tensors; packed ones are (heads, total, dim).
FA2_API AttentionArgs bhsd_args(const AttentionProblem&, const void* q, const void* k, const void* v,
                                void* out, float* lse = nullptr);

}  // namespace fa2
