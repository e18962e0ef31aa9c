// Written from the rows of the C++ structs by fa2_write_files: do not edit.
use super::*;

/// One call that appends keys and values to a KV cache and applies rotary embedding.
#[derive(Debug)]
pub struct Append<'a> {
    /// new keys; (total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim)
    pub k: Tensor<'a>,
    /// new values; (total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv,
    /// head_dim_v)
    pub v: Tensor<'a>,
    /// keys of the cache; (cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries,
    /// cache_rows, heads_kv, head_dim); or float8_e4m3fn
    pub k_cache: TensorMut<'a>,
    /// values of the cache; (cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries,
    /// cache_rows, heads_kv, head_dim_v); or float8_e4m3fn
    pub v_cache: TensorMut<'a>,
    /// factors of the cache's 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type
    pub k_descale: Option<Tensor<'a>>,
    /// factors of the cache's 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type
    pub v_descale: Option<Tensor<'a>>,
    /// rows that each sequence has in the cache before the call; (batch); int32
    pub cache_seqlens: Tensor<'a>,
    /// the entry of each sequence; null: entry b for sequence b; (batch); int32; optional; not with
    /// page_table
    pub cache_batch_idx: Option<Tensor<'a>>,
    /// the pages of each sequence; (batch, max_pages); int32; given with page_size
    pub page_table: Option<Tensor<'a>>,
    /// where each sequence's new rows begin, and where the last one's end; (batch + 1); int32; given with
    /// total_new
    pub cu_seqlens_new: Option<Tensor<'a>>,
    /// where each sequence's rows of Q begin, and where the last one's end; (batch + 1); int32; optional with
    /// total_q
    pub cu_seqlens_q: Option<Tensor<'a>>,
    /// cosines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
    /// rotary_dim
    pub rotary_cos: Option<Tensor<'a>>,
    /// sines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
    /// rotary_dim
    pub rotary_sin: Option<Tensor<'a>>,
    /// each sequence's position of new row 0; null: seqlens; (batch); int32; optional with rotary_dim
    pub rotary_seqlens: Option<Tensor<'a>>,
    /// queries to rotate; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q,
    /// head_dim); optional with heads_q
    pub q: Option<Tensor<'a>>,
    /// rotated queries; may be q, with the same strides; (total_q, heads_q, head_dim) if cu_seqlens_q |
    /// (batch, seqlen_q, heads_q, head_dim); given with heads_q
    pub q_out: Option<TensorMut<'a>>,
    /// which two columns are rotated together
    pub rotary_style: RotaryStyle,
    /// query i is rotated by the position of new row i, else every query by that of new row 0
    pub causal_positions: bool,
    /// where the call is enqueued; ignored on the interpreter
    pub stream: Stream,
}

impl<'a> Append<'a> {
    /// Returns a call without optional tensors, whose numbers are the defaults.
    pub fn new(k: Tensor<'a>, v: Tensor<'a>, k_cache: TensorMut<'a>, v_cache: TensorMut<'a>, cache_seqlens: Tensor<'a>) -> Self {
        Self {
            k,
            v,
            k_cache,
            v_cache,
            k_descale: None,
            v_descale: None,
            cache_seqlens,
            cache_batch_idx: None,
            page_table: None,
            cu_seqlens_new: None,
            cu_seqlens_q: None,
            rotary_cos: None,
            rotary_sin: None,
            rotary_seqlens: None,
            q: None,
            q_out: None,
            rotary_style: RotaryStyle::default(),
            causal_positions: true,
            stream: Stream::default(),
        }
    }

    pub(crate) fn tensors(&self) -> [*const sys::fa2_array; 16] {
        [
            self.k.raw(),
            self.v.raw(),
            self.k_cache.raw(),
            self.v_cache.raw(),
            self.k_descale.raw(),
            self.v_descale.raw(),
            self.cache_seqlens.raw(),
            self.cache_batch_idx.raw(),
            self.page_table.raw(),
            self.cu_seqlens_new.raw(),
            self.cu_seqlens_q.raw(),
            self.rotary_cos.raw(),
            self.rotary_sin.raw(),
            self.rotary_seqlens.raw(),
            self.q.raw(),
            self.q_out.raw(),
        ]
    }

    pub(crate) fn set_problem(&self, problem: &mut sys::fa2_append_problem) {
        problem.rotary_style = self.rotary_style as i32;
        problem.causal_positions = i32::from(self.causal_positions);
    }
}
