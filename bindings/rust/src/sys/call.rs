// Written from the rows of the C++ structs by fa2_write_files: do not edit.
//! The structs of `include/fa2/c_call.h`.

use super::*;

c_struct! {
    /// fa2::AttentionProblem
    #[derive(PartialEq, Eq)]
    pub struct fa2_problem {
        /// sizeof(fa2_problem)
        pub struct_size: u32 = size_of::<fa2_problem>() as u32,
        /// element type of Q and O, and of K and V unless kv_type says another; 0: f16, 1: bf16
        pub dtype: i32 = 0,
        /// head dimension of Q and K, a multiple of 8 in 8..576
        pub head_dim: i32 = 0,
        /// head dimension of V and O, a multiple of 8 in 8..512; 0: head_dim
        pub head_dim_v: i32 = 0,
        /// which keys a query sees; 0: none, 1: causal_bottom_right, 2: causal_top_left
        pub mask: i32 = 0,
        /// 0: no window_left
        pub has_window_left: i32 = 0,
        /// 0: no window_right
        pub has_window_right: i32 = 0,
        /// 0: no attention_chunk
        pub has_attention_chunk: i32 = 0,
        /// scores become cap * tanh(score / cap); 0 or 1
        pub softcap: i32 = 0,
        /// ALiBi: scores fall with the distance of the key, by a slope per head; 0 or 1
        pub alibi: i32 = 0,
        /// attention sinks: a logit per head joins the softmax; 0 or 1
        pub sinks: i32 = 0,
        /// probabilities are dropped at random; 0 or 1
        pub dropout: i32 = 0,
        /// queries are two pieces of a longer sequence; 0 or 1
        pub query_pieces: i32 = 0,
        /// sequences have lengths of their own, which only the device knows; 0 or 1
        pub varlen: i32 = 0,
        /// rows per page of K and V; 0: they are not paged
        pub page_size: i32 = 0,
        /// entries of the page table that name no page hide their keys, as -1 in lists of single keys; 0 or 1
        pub missing_pages: i32 = 0,
        /// element type of K and V: that of Q, 8 bits, or the rows of DeepSeek-V3.2; 0: same, 1: e4m3, 2:
        /// scaled, 3: ds_mla
        pub kv_type: i32 = 0,
        /// V is the first columns of K, as in latent attention (MLA); 0 or 1
        pub values_in_keys: i32 = 0,
        /// the bits of a sequence do not depend on the batch; 0 or 1
        pub batch_invariant: i32 = 0,
        /// the base of the logarithm in LSE; 0: natural, 1: two
        pub lse_base: i32 = 0,
        /// the largest logit of each head is written; 0 or 1
        pub max_logits: i32 = 0,
        /// dK and dV are float32: parts of a sum; 0 or 1
        pub float32_dk_dv: i32 = 0,
        /// dQ is float32: a part of a sum; 0 or 1
        pub float32_dq: i32 = 0,
        /// O is float32: a part of a merge; 0 or 1
        pub float32_out: i32 = 0,
        /// SMs that persistent kernels leave to other kernels
        pub sm_margin: i32 = 0,
        /// 0
        pub reserved: i32 = 0,
        /// sliding window: how many keys before its own a query sees
        pub window_left: i64 = 0,
        /// how many keys after its own a query sees
        pub window_right: i64 = 0,
        /// chunked local attention: a query sees only keys of its own chunk of so many
        pub attention_chunk: i64 = 0,
        /// number of make_score_text(): functions of scores; 0: none
        pub score_text: i64 = 0,
        /// sequences
        pub batch: i64 = 1,
        /// query heads
        pub heads_q: i64 = 1,
        /// key and value heads, dividing heads_q; 0: heads_q
        pub heads_kv: i64 = 0,
        /// queries; with varlen of the longest sequence
        pub seqlen_q: i64 = 0,
        /// keys; with varlen of the longest sequence
        pub seqlen_k: i64 = 0,
        /// queries of all sequences, packed; 0: batched
        pub total_q: i64 = 0,
        /// keys of all sequences, packed; 0: batched
        pub total_k: i64 = 0,
        /// pages that K and V have
        pub page_count: i64 = 0,
    }
}

c_struct! {
    /// fa2::AttentionArgs
    pub struct fa2_args {
        /// sizeof(fa2_args)
        pub struct_size: u32 = size_of::<fa2_args>() as u32,
        /// scores become softcap * tanh(score / softcap); scaled scores; finite and above 0
        pub softcap: f32 = 0.0,
        /// alibi_slopes are (batch, heads_q); 0 or 1
        pub alibi_slopes_per_batch: i32 = 0,
        /// 0: no softmax_scale
        pub has_softmax_scale: i32 = 0,
        /// any finite value; absent: 1 / sqrt(head_dim)
        pub softmax_scale: f32 = 0.0,
        /// share of probabilities that are dropped; at least 0 and below 1
        pub dropout_probability: f32 = 0.0,
        /// the LSE of a query that sees no key; its O is 0; 0: positive_infinity, 1: negative_infinity
        pub empty_row_lse: i32 = 0,
        /// 0
        pub reserved: i32 = 0,
        /// queries; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim)
        pub q: fa2_tensor = fa2_tensor::default(),
        /// keys; (total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim)
        /// if page_table | (batch, seqlen_k, heads_kv, head_dim); or float8_e4m3fn
        pub k: fa2_tensor = fa2_tensor::default(),
        /// values; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv,
        /// head_dim_v) if page_table | (batch, seqlen_k, heads_kv, head_dim_v); or float8_e4m3fn
        pub v: fa2_tensor = fa2_tensor::default(),
        /// the output; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q,
        /// head_dim_v); or float32
        pub out: fa2_tensor = fa2_tensor::default(),
        /// log-sum-exp of each row, to the base lse_base; (heads_q, total_q) if cu_seqlens_q | (batch,
        /// heads_q, seqlen_q); float32; optional
        pub lse: *mut f32 = null_mut(),
        /// largest score of each head that enters the softmax; -infinity without a visible key; (batch,
        /// heads_q); float32; given with max_logits
        pub max_logits: *mut f32 = null_mut(),
        /// slope * distance is subtracted from scores; (heads_q) | (batch, heads_q); float32; given with
        /// alibi
        pub alibi_slopes: *const f32 = null(),
        /// a logit per head that joins each row's softmax without a value; -infinity: none; (heads_q);
        /// float32; given with sinks
        pub sinks: *const f32 = null(),
        /// what texts of scores read; one for each capture of score_text
        pub captures: *const fa2_capture = null(),
        /// captures
        pub capture_count: i64 = 0,
        /// which blocks the mask of score_text shows, as fa2_map_blocks() has found; optional
        pub block_map: *const fa2_block_map = null(),
        /// the version of block_map
        pub block_map_version: u64 = 0,
        /// seed and offset on the device, in place of the two numbers, which are 0 then; (2); int64; optional
        /// with dropout
        pub dropout_state: *const u64 = null(),
        /// with varlen: split, first and second of each sequence, in place of the numbers; (batch, 3); int32;
        /// optional with query_pieces
        pub query_pieces_table: *const i32 = null(),
        /// where each sequence's rows of Q and O begin, and where the last one's end; (batch + 1); int32;
        /// given with total_q
        pub cu_seqlens_q: *const i32 = null(),
        /// where each sequence's rows of K and V begin, and where the last one's end; (batch + 1); int32;
        /// given with total_k
        pub cu_seqlens_k: *const i32 = null(),
        /// how many rows of Q count of each sequence; (batch); int32; optional with varlen
        pub seqused_q: *const i32 = null(),
        /// how many rows of K and V count of each sequence; (batch); int32; optional with varlen
        pub seqused_k: *const i32 = null(),
        /// the pages of each sequence; (batch, max_pages); int32; given with page_size
        pub page_table: *const i32 = null(),
        /// elements from one sequence's pages to the next one's
        pub page_table_stride: i64 = 0,
        /// factors of 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type
        pub k_descale: fa2_tensor = fa2_tensor::default(),
        /// factors of 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type
        pub v_descale: fa2_tensor = fa2_tensor::default(),
        /// memory for launches: see fa2_plan_workspace_bytes(); optional
        pub workspace: *mut c_void = null_mut(),
        /// seed of the mask
        pub dropout_seed: u64 = 0,
        /// another mask for every value, such as the number of the call
        pub dropout_offset: u64 = 0,
        /// queries of the first piece
        pub query_pieces_split: i64 = 0,
        /// query i of the first piece has the position i + first
        pub query_pieces_first: i64 = 0,
        /// query i of the second piece has the position i + second
        pub query_pieces_second: i64 = 0,
    }
}

c_struct! {
    /// fa2::BackwardArgs
    pub struct fa2_backward_args {
        /// sizeof(fa2_backward_args)
        pub struct_size: u32 = size_of::<fa2_backward_args>() as u32,
        /// how gradients may differ between runs; FA2_FASTEST or FA2_BITWISE
        pub determinism: i32 = 0,
        /// the forward's arguments, with out and lse as inputs
        pub forward: *const fa2_args = null(),
        /// gradient of O; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q,
        /// head_dim_v)
        pub d_out: fa2_tensor = fa2_tensor::default(),
        /// gradient of LSE; (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32;
        /// optional
        pub d_lse: *const f32 = null(),
        /// gradient of Q; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q,
        /// head_dim); or float32; optional
        pub dq: fa2_tensor = fa2_tensor::default(),
        /// gradient of K; (total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv,
        /// head_dim); or float32; optional
        pub dk: fa2_tensor = fa2_tensor::default(),
        /// gradient of V; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv,
        /// head_dim_v); or float32; optional
        pub dv: fa2_tensor = fa2_tensor::default(),
        /// gradient of sinks, summed over all rows of the batch; (heads_q); float32; optional with sinks
        pub d_sinks: *mut f32 = null_mut(),
        /// gradients of captures: contiguous float32 for each capture of score_text, NULL where none is
        /// wanted
        pub d_captures: *const *mut f32 = null(),
        /// memory for launches: see fa2_backward_plan_workspace_bytes(); optional
        pub workspace: *mut c_void = null_mut(),
    }
}

c_struct! {
    /// fa2::AppendProblem
    #[derive(PartialEq, Eq)]
    pub struct fa2_append_problem {
        /// sizeof(fa2_append_problem)
        pub struct_size: u32 = size_of::<fa2_append_problem>() as u32,
        /// element type of Q, K and V; 0: f16, 1: bf16
        pub dtype: i32 = 0,
        /// head dimension of Q and K, a multiple of 8 in 8..576
        pub head_dim: i32 = 128,
        /// head dimension of V, a multiple of 8 in 8..512; 0: head_dim
        pub head_dim_v: i32 = 0,
        /// how many columns of Q and K are rotated, from the first on; a multiple of 8; 0: none
        pub rotary_dim: i32 = 0,
        /// which two columns are rotated together; 0: halves, 1: interleaved
        pub rotary_style: i32 = 0,
        /// cos and sin are float32, else of dtype; 0 or 1
        pub float32_tables: i32 = 0,
        /// query i is rotated by the position of new row i, else every query by that of new row 0; 0 or 1
        pub causal_positions: i32 = 1,
        /// element type of the cache: dtype, or 8 bits; 0: same, 1: e4m3, 2: scaled, 3: ds_mla
        pub kv_type: i32 = 0,
        /// 0
        pub reserved: i32 = 0,
        /// positions that cos and sin have
        pub table_rows: i64 = 0,
        /// sequences
        pub batch: i64 = 1,
        /// query heads; 0: there is no Q
        pub heads_q: i64 = 0,
        /// key and value heads
        pub heads_kv: i64 = 1,
        /// queries of each sequence; ignored if Q is packed
        pub seqlen_q: i64 = 1,
        /// new rows of K and V of each sequence; ignored if they are packed
        pub seqlen_new: i64 = 1,
        /// queries of all sequences, packed; 0: batched
        pub total_q: i64 = 0,
        /// new rows of all sequences, packed; 0: batched
        pub total_new: i64 = 0,
        /// rows per page; 0: each sequence has one entry of the cache
        pub page_size: i64 = 0,
        /// entries, or pages, of the cache
        pub cache_entries: i64 = 1,
        /// rows per entry; ignored with pages
        pub cache_rows: i64 = 0,
        /// columns of the page table; ignored without pages
        pub max_pages: i64 = 0,
    }
}

c_struct! {
    /// fa2::AppendArgs
    pub struct fa2_append_args {
        /// sizeof(fa2_append_args)
        pub struct_size: u32 = size_of::<fa2_append_args>() as u32,
        /// 0
        pub reserved: i32 = 0,
        /// new keys; (total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv,
        /// head_dim)
        pub k_new: fa2_tensor = fa2_tensor::default(),
        /// new values; (total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv,
        /// head_dim_v)
        pub v_new: fa2_tensor = fa2_tensor::default(),
        /// keys of the cache; (cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries,
        /// cache_rows, heads_kv, head_dim); or float8_e4m3fn
        pub k_cache: fa2_tensor = fa2_tensor::default(),
        /// values of the cache; (cache_entries, page_size, heads_kv, head_dim_v) if page_table |
        /// (cache_entries, cache_rows, heads_kv, head_dim_v); or float8_e4m3fn
        pub v_cache: fa2_tensor = fa2_tensor::default(),
        /// factors of the cache's 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type
        pub k_descale: fa2_tensor = fa2_tensor::default(),
        /// factors of the cache's 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type
        pub v_descale: fa2_tensor = fa2_tensor::default(),
        /// rows that each sequence has in the cache before the call; (batch); int32
        pub seqlens: *const i32 = null(),
        /// the entry of each sequence; null: entry b for sequence b; (batch); int32; optional
        pub cache_batch_idx: *const i32 = null(),
        /// the pages of each sequence; (batch, max_pages); int32; given with page_size
        pub page_table: *const i32 = null(),
        /// elements from one sequence's pages to the next one's
        pub page_table_stride: i64 = 0,
        /// where each sequence's new rows begin, and where the last one's end; (batch + 1); int32; given with
        /// total_new
        pub cu_seqlens_new: *const i32 = null(),
        /// where each sequence's rows of Q begin, and where the last one's end; (batch + 1); int32; optional
        /// with total_q
        pub cu_seqlens_q: *const i32 = null(),
        /// cosines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
        /// rotary_dim
        pub cos: *const c_void = null(),
        /// sines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
        /// rotary_dim
        pub sin: *const c_void = null(),
        /// elements of cos and of sin from one position to the next
        pub table_stride: i64 = 0,
        /// each sequence's position of new row 0; null: seqlens; (batch); int32; optional with rotary_dim
        pub rotary_seqlens: *const i32 = null(),
        /// queries to rotate; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q,
        /// head_dim); optional with heads_q
        pub q: fa2_tensor = fa2_tensor::default(),
        /// rotated queries; may be q, with the same strides; (total_q, heads_q, head_dim) if cu_seqlens_q |
        /// (batch, seqlen_q, heads_q, head_dim); given with heads_q
        pub q_out: fa2_tensor = fa2_tensor::default(),
    }
}

c_struct! {
    /// fa2::MergeProblem
    #[derive(PartialEq, Eq)]
    pub struct fa2_merge_problem {
        /// sizeof(fa2_merge_problem)
        pub struct_size: u32 = size_of::<fa2_merge_problem>() as u32,
        /// element type of the parts and of O, unless they are float32; 0: f16, 1: bf16
        pub dtype: i32 = 0,
        /// the parts are float32; 0 or 1
        pub float32_parts: i32 = 0,
        /// O is float32; 0 or 1
        pub float32_output: i32 = 0,
        /// the base of the logarithm in LSE, of the parts and of the result; 0: natural, 1: two
        pub lse_base: i32 = 0,
        /// head dimension of O, a multiple of 8 in 8..512
        pub head_dim: i32 = 128,
        /// partial outputs; at least 1
        pub parts: i64 = 1,
        /// sequences; 1 if they are packed
        pub batch: i64 = 1,
        /// query heads
        pub heads: i64 = 1,
        /// queries; of all sequences if they are packed
        pub seqlen: i64 = 1,
    }
}

c_struct! {
    /// fa2::MergeArgs
    pub struct fa2_merge_args {
        /// sizeof(fa2_merge_args)
        pub struct_size: u32 = size_of::<fa2_merge_args>() as u32,
        /// the LSE of a row for which no part has a key; its O is 0; 0: positive_infinity, 1:
        /// negative_infinity
        pub empty_row_lse: i32 = 0,
        /// partial outputs, each normalised; (parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads,
        /// head_dim); or float32
        pub parts: fa2_tensor = fa2_tensor::default(),
        /// elements from one partial output to the next
        pub part_stride: i64 = 0,
        /// log-sum-exp of each part's rows, to the base lse_base; either infinity for a row without a key;
        /// (parts, batch, heads, seqlen) if batch | (parts, heads, seqlen); float32
        pub lse_parts: fa2_tensor = fa2_tensor::default(),
        /// elements from one part's log-sum-exp to the next one's
        pub lse_part_stride: i64 = 0,
        /// the merged output; (batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim); or
        /// float32
        pub out: fa2_tensor = fa2_tensor::default(),
        /// log-sum-exp of each merged row; (batch, heads, seqlen) if batch | (heads, seqlen); float32;
        /// optional
        pub lse: *mut f32 = null_mut(),
    }
}
