// Appends new keys and values to a KV cache, and applies rotary embedding to keys and queries.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// Which two columns are rotated together by angle i < rotary_dim / 2.
///   halves: i and i + rotary_dim / 2 (GPT-NeoX).
///   interleaved: 2 i and 2 i + 1 (GPT-J).
enum class RotaryStyle : std::uint8_t { halves, interleaved };

/// What append() computes. It writes each sequence's new rows of K and V behind those in its cache, in place. It rotates K, and on
/// request Q, by rotary embedding (RoFormer, arXiv 2104.09864). flash_attn_with_kvcache() begins with this operation.
struct AppendProblem {
  DType dtype = DType::f16;
  std::int32_t head_dim = 128;  ///< columns of Q and K; a multiple of 8, 8..576
  std::int32_t head_dim_v = 0;  ///< columns of V; a multiple of 8, 8..512; 0 means head_dim
  /// How many leading columns of Q and K are rotated; a multiple of 8, 0 .. head_dim; 0: none.
  std::int32_t rotary_dim = 0;
  RotaryStyle rotary_style = RotaryStyle::halves;
  bool float32_tables = false;  ///< whether cos and sin are float32; else they have `dtype`
  std::int64_t table_rows = 0;  ///< positions in cos and sin
  /// Whether query i has the position of new row i, which causal masks, windows and chunks need. Else every query has that of new row 0.
  bool causal_positions = true;

  /// The element type of the cache, as in AttentionProblem. Q and the new rows have `dtype`. With ds_mla, dtype is bf16, head_dim 64
  /// and head_dim_v 512: K is the rotated columns of a latent, V the others.
  KvType kv_type = KvType::same;

  std::int64_t batch = 1;    ///< sequences
  std::int64_t heads_q = 0;  ///< 0: there is no Q
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 1;    ///< queries per sequence; ignored if Q is packed
  std::int64_t seqlen_new = 1;  ///< new rows of K and V per sequence; ignored if they are packed
  std::int64_t total_q = 0;  ///< > 0: Q is packed, (total_q, heads_q, head_dim), and cu_seqlens_q divides it
  std::int64_t total_new = 0;  ///< > 0: the new rows are packed, and cu_seqlens_new divides them

  std::int64_t page_size = 0;      ///< rows per page; any number; 0: each sequence has one entry of the cache
  std::int64_t cache_entries = 1;  ///< entries of the cache; with page_size, pages
  std::int64_t cache_rows = 0;     ///< rows per entry; ignored with page_size
  std::int64_t max_pages = 0;      ///< columns of the page table; ignored without page_size

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using P = AppendProblem;
    return take(
        row("dtype", &P::dtype).help("element type of Q, K and V"),
        row("head_dim", &P::head_dim)
            .along(Axis::column, 1)
            .help("head dimension of Q and K, a multiple of 8 in 8..576"),
        row("head_dim_v", &P::head_dim_v)
            .along(Axis::column, 1)
            .help("head dimension of V, a multiple of 8 in 8..512; 0: head_dim"),
        row("rotary_dim", &P::rotary_dim)
            .help("how many columns of Q and K are rotated, from the first on; a multiple of 8; 0: none"),
        row("rotary_style", &P::rotary_style).help("which two columns are rotated together"),
        row("float32_tables", &P::float32_tables).help("cos and sin are float32, else of dtype"),
        row("table_rows", &P::table_rows).sizes().help("positions that cos and sin have"),
        row("causal_positions", &P::causal_positions)
            .help("query i is rotated by the position of new row i, else every query by that of new row 0"),
        row("kv_type", &P::kv_type).help("element type of the cache: dtype, or 8 bits"),
        row("batch", &P::batch).sizes(Axis::entry).help("sequences"),
        row("heads_q", &P::heads_q).sizes(Axis::head, 1).help("query heads; 0: there is no Q"),
        row("heads_kv", &P::heads_kv).sizes(Axis::head, 1).help("key and value heads"),
        row("seqlen_q", &P::seqlen_q)
            .sizes(Axis::row)
            .help("queries of each sequence; ignored if Q is packed"),
        row("seqlen_new", &P::seqlen_new)
            .sizes(Axis::row)
            .help("new rows of K and V of each sequence; ignored if they are packed"),
        row("total_q", &P::total_q).sizes(Axis::row).help("queries of all sequences, packed; 0: batched"),
        row("total_new", &P::total_new)
            .sizes(Axis::row)
            .help("new rows of all sequences, packed; 0: batched"),
        row("page_size", &P::page_size)
            .sizes(Axis::row, 1)
            .help("rows per page; 0: each sequence has one entry of the cache"),
        row("cache_entries", &P::cache_entries).sizes(Axis::entry).help("entries, or pages, of the cache"),
        row("cache_rows", &P::cache_rows).sizes(Axis::row).help("rows per entry; ignored with pages"),
        row("max_pages", &P::max_pages).sizes().help("columns of the page table; ignored without pages"));
  }

  FA2_API friend bool operator==(const AppendProblem&, const AppendProblem&);
  friend bool operator!=(const AppendProblem& a, const AppendProblem& b) { return !(a == b); }
};

/// The data of one call: pointers to memory of the current device, of the problem's dtype unless another is named. Strides are in
/// elements. Tables are int32.
///
/// append() writes row i of sequence b to row seqlens[b] + i of its cache, and rotates it by row rotary_seqlens[b] + i of cos and
/// sin. Rows count from the beginning of the entry, so left padding of a cache changes nothing. append() skips a row if a table
/// points outside: to a row or page that the cache does not have, or to a position that cos and sin do not have. No two sequences
/// may append to the same rows. With FA2_CHECK=1 append() throws InvalidRequest in both cases: it copies the tables to the host and
/// so waits for the stream, unless the stream captures. The interpreter always checks.
struct AppendArgs {
  const void* k_new = nullptr;  ///< (batch, head, row, head_dim); packed: (head, row, head_dim)
  const void* v_new = nullptr;  ///< like k_new, with head_dim_v columns
  TensorStrides k_new_strides;  ///< `batch` is ignored if the new rows are packed
  TensorStrides v_new_strides;

  /// (entry or page, head, row, head_dim). With an 8-bit kv_type rows must be 16-byte aligned. With ds_mla K and V share rows of 656
  /// bytes: v_cache must be k_cache, with its strides.
  void* k_cache = nullptr;
  void* v_cache = nullptr;
  TensorStrides k_cache_strides;  ///< `batch`: from one entry or page to the next; rows must not overlap
  TensorStrides v_cache_strides;
  /// Optional with e4m3, else null: float32 (batch, heads_kv) on the device, of any strides, even 0; those of rows are
  /// ignored. The factors by which attention multiplies the rows of each sequence, per key/value head: its k_descale and v_descale.
  /// append() divides by them and does not check them. Null: 1.
  const float* k_descale = nullptr;
  const float* v_descale = nullptr;
  TensorStrides k_descale_strides;
  TensorStrides v_descale_strides;
  /// (batch): rows of each sequence in the cache before the call.
  const std::int32_t* seqlens = nullptr;
  /// Optional without page_size, else null: (batch), the entry of each sequence. Null: sequence b has entry b.
  const std::int32_t* cache_batch_idx = nullptr;
  /// With page_size, else null: (batch, max_pages). Row j of sequence b is row j % page_size of page page_table[b, j / page_size].
  /// Only entries of rows that this call writes are read.
  const std::int32_t* page_table = nullptr;
  std::int64_t page_table_stride = 0;  ///< from one sequence's row to the next; elements

  /// With total_new (total_q), else null: (batch + 1). Sequence b is the rows [cu_seqlens[b], cu_seqlens[b + 1]). Rows of no
  /// sequence are skipped. Entries must not descend.
  const std::int32_t* cu_seqlens_new = nullptr;
  const std::int32_t* cu_seqlens_q = nullptr;

  /// With rotary_dim, else null: (table_rows, rotary_dim / 2), cosine and sine of each position's angles.
  const void* cos = nullptr;
  const void* sin = nullptr;
  std::int64_t table_stride = 0;  ///< from one position to the next, in cos and in sin; elements
  /// Optional with rotary_dim: (batch), the position of each sequence's new row 0, if it is not seqlens[b]. For example,
  /// seqlens[b] minus the left padding.
  const std::int32_t* rotary_seqlens = nullptr;

  const void* q = nullptr;  ///< with heads_q, else null: (batch, head, row, head_dim)
  void* q_out = nullptr;    ///< rotated Q, with its other columns copied; may be q, with the same strides
  TensorStrides q_strides;
  TensorStrides q_out_strides;

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using A = AppendArgs;
    return take(
        row("k_new", &A::k_new, &A::k_new_strides)
            .tensor("k")
            .shape(
                "(total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim)")
            .help("new keys"),
        row("v_new", &A::v_new, &A::v_new_strides)
            .tensor("v")
            .shape("(total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv, "
                   "head_dim_v)")
            .help("new values"),
        row("k_cache", &A::k_cache, &A::k_cache_strides)
            .shape(
                "(cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries, cache_rows, "
                "heads_kv, head_dim)")
            .or_type("float8_e4m3fn", "kv_type")
            .help("keys of the cache"),
        row("v_cache", &A::v_cache, &A::v_cache_strides)
            .shape("(cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries, "
                   "cache_rows, "
                   "heads_kv, head_dim_v)")
            .or_type("float8_e4m3fn", "kv_type")
            .like("k_cache")
            .help("values of the cache"),
        row("k_descale", &A::k_descale, &A::k_descale_strides)
            .shape("(batch, heads_kv)")
            .used_if("kv_type")
            .optional()
            .help("factors of the cache's 8-bit keys; absent: 1"),
        row("v_descale", &A::v_descale, &A::v_descale_strides)
            .shape("(batch, heads_kv)")
            .used_if("kv_type")
            .optional()
            .help("factors of the cache's 8-bit values; absent: 1"),
        row("seqlens", &A::seqlens)
            .tensor("cache_seqlens")
            .shape("(batch)")
            .help("rows that each sequence has in the cache before the call"),
        row("cache_batch_idx", &A::cache_batch_idx)
            .shape("(batch)")
            .optional()
            .without("page_table")
            .help("the entry of each sequence; null: entry b for sequence b"),
        row("page_table", &A::page_table)
            .shape("(batch, max_pages)")
            .stride("page_table_stride")
            .used_if("page_size")
            .help("the pages of each sequence"),
        row("page_table_stride", &A::page_table_stride)
            .help("elements from one sequence's pages to the next one's"),
        row("cu_seqlens_new", &A::cu_seqlens_new)
            .shape("(batch + 1)")
            .used_if("total_new")
            .help("where each sequence's new rows begin, and where the last one's end"),
        row("cu_seqlens_q", &A::cu_seqlens_q)
            .shape("(batch + 1)")
            .used_if("total_q")
            .optional()
            .with("q")
            .help("where each sequence's rows of Q begin, and where the last one's end"),
        row("cos", &A::cos)
            .tensor("rotary_cos")
            .shape("(table_rows, rotary_dim / 2)")
            .stride("table_stride")
            .packed()
            .or_type("float32", "float32_tables")
            .used_if("rotary_dim")
            .help("cosines of each position's rotary angles"),
        row("sin", &A::sin)
            .tensor("rotary_sin")
            .shape("(table_rows, rotary_dim / 2)")
            .packed()
            .or_type("float32", "float32_tables")
            .used_if("rotary_dim")
            .with("cos")
            .like("cos")
            .help("sines of each position's rotary angles"),
        row("table_stride", &A::table_stride)
            .help("elements of cos and of sin from one position to the next"),
        row("rotary_seqlens", &A::rotary_seqlens)
            .shape("(batch)")
            .used_if("rotary_dim")
            .optional()
            .with("cos")
            .help("each sequence's position of new row 0; null: seqlens"),
        row("q", &A::q, &A::q_strides)
            .shape(AttentionArgs::kQueryShape)
            .used_if("heads_q")
            .optional()
            .with("cos")
            .help("queries to rotate"),
        row("q_out", &A::q_out, &A::q_out_strides)
            .shape(AttentionArgs::kQueryShape)
            .used_if("heads_q")
            .with("q")
            .help("rotated queries; may be q, with the same strides"));
  }
};

/// Calls Context::default_context().append(). In a cache of 16 bits V and the other columns of K are copied bit for bit, and a
/// rotated value is rounded once, from float32. In a cache of 8 bits each element is x / descale, correctly rounded to float32 and
/// then to nearest even; x is the new value, or the rotated one in float32. Beyond 448, infinities included, it becomes 448 with
/// its sign. NaN stays NaN. In a cache of ds_mla the factor of 128 columns is the least power of two, from 2^-126 on, with which
/// none of their codes is beyond 448, infinities aside: codes times factors are exact in bfloat16.
///
/// JitMode::off needs a kernel pack that was made with PrecompileOptions::append. There is one kernel per dtype, kv_type, head dims
/// and RowAlignment: bytes16 if the rows of all tensors, cos and sin included, are 16-byte aligned, else element.
FA2_API void append(const AppendProblem& problem, const AppendArgs& args, Stream stream = nullptr);

}  // namespace fa2
