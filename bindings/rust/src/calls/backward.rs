// Written from the rows of the C++ structs by fa2_write_files: do not edit.
use super::*;

/// One call for those gradients of attention that are given.
#[derive(Debug)]
pub struct Backward<'a> {
    /// queries; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim)
    pub q: Tensor<'a>,
    /// keys; (total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim) if
    /// page_table | (batch, seqlen_k, heads_kv, head_dim); or float8_e4m3fn
    pub k: Tensor<'a>,
    /// values; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv,
    /// head_dim_v) if page_table | (batch, seqlen_k, heads_kv, head_dim_v); or float8_e4m3fn
    pub v: Tensor<'a>,
    /// the output; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v);
    /// or float32
    pub out: Tensor<'a>,
    /// log-sum-exp of each row, to the base lse_base; (heads_q, total_q) if cu_seqlens_q | (batch, heads_q,
    /// seqlen_q); float32; optional
    pub lse: Tensor<'a>,
    /// largest score of each head that enters the softmax; -infinity without a visible key; (batch, heads_q);
    /// float32; given with max_logits
    pub max_logits: Option<Tensor<'a>>,
    /// slope * distance is subtracted from scores; (heads_q) | (batch, heads_q); float32; given with alibi
    pub alibi_slopes: Option<Tensor<'a>>,
    /// a logit per head that joins each row's softmax without a value; -infinity: none; (heads_q); float32;
    /// given with sinks
    pub sinks: Option<Tensor<'a>>,
    /// seed and offset on the device, in place of the two numbers, which are 0 then; (2); int64; optional
    /// with dropout
    pub dropout_state: Option<Tensor<'a>>,
    /// with varlen: split, first and second of each sequence, in place of the numbers; (batch, 3); int32;
    /// optional with query_pieces
    pub query_pieces: Option<Tensor<'a>>,
    /// where each sequence's rows of Q and O begin, and where the last one's end; (batch + 1); int32; given
    /// with total_q
    pub cu_seqlens_q: Option<Tensor<'a>>,
    /// where each sequence's rows of K and V begin, and where the last one's end; (batch + 1); int32; given
    /// with total_k; not with page_table
    pub cu_seqlens_k: Option<Tensor<'a>>,
    /// how many rows of Q count of each sequence; (batch); int32; optional with varlen
    pub seqused_q: Option<Tensor<'a>>,
    /// how many rows of K and V count of each sequence; (batch); int32; optional with varlen
    pub seqused_k: Option<Tensor<'a>>,
    /// the pages of each sequence; (batch, max_pages); int32; given with page_size
    pub page_table: Option<Tensor<'a>>,
    /// factors of 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type
    pub k_descale: Option<Tensor<'a>>,
    /// factors of 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type
    pub v_descale: Option<Tensor<'a>>,
    /// gradient of O; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v)
    pub d_out: Tensor<'a>,
    /// gradient of LSE; (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32; optional
    pub d_lse: Option<Tensor<'a>>,
    /// gradient of Q; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); or
    /// float32; optional
    pub dq: Option<TensorMut<'a>>,
    /// gradient of K; (total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim);
    /// or float32; optional
    pub dk: Option<TensorMut<'a>>,
    /// gradient of V; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv,
    /// head_dim_v); or float32; optional
    pub dv: Option<TensorMut<'a>>,
    /// gradient of sinks, summed over all rows of the batch; (heads_q); float32; optional with sinks
    pub d_sinks: Option<TensorMut<'a>>,
    /// which keys a query sees
    pub mask: Mask,
    /// sliding window: how many keys before its own a query sees
    pub window_left: Option<i64>,
    /// how many keys after its own a query sees
    pub window_right: Option<i64>,
    /// chunked local attention: a query sees only keys of its own chunk of so many
    pub attention_chunk: Option<i64>,
    /// entries of the page table that name no page hide their keys, as -1 in lists of single keys
    pub missing_pages: bool,
    /// the bits of a sequence do not depend on the batch
    pub batch_invariant: bool,
    /// the base of the logarithm in LSE
    pub lse_base: LseBase,
    /// SMs that persistent kernels leave to other kernels
    pub sm_margin: i32,
    /// queries; with varlen of the longest sequence
    pub max_seqlen_q: Option<i64>,
    /// keys; with varlen of the longest sequence
    pub max_seqlen_k: Option<i64>,
    /// scores become softcap * tanh(score / softcap); scaled scores; finite and above 0; 0: none
    pub softcap: f32,
    /// any finite value; absent: 1 / sqrt(head_dim)
    pub softmax_scale: Option<f32>,
    /// share of probabilities that are dropped; at least 0 and below 1; 0: none
    pub dropout_p: f32,
    /// seed of the mask
    pub dropout_seed: u64,
    /// another mask for every value, such as the number of the call
    pub dropout_offset: u64,
    /// the LSE of a query that sees no key; its O is 0
    pub empty_row_lse: EmptyRowLse,
    /// functions of scores, and what they capture
    pub scores: Option<&'a Scores<'a>>,
    /// which blocks the mask of `scores` shows; optional with a mask
    pub block_map: Option<&'a BlockMap>,
    /// must be that of block_map; 0 without one
    pub block_map_version: u64,
    /// how gradients may differ between runs
    pub determinism: Determinism,
    /// where the call is enqueued; ignored on the interpreter
    pub stream: Stream,
}

impl<'a> Backward<'a> {
    /// Returns a call without optional tensors, whose numbers are the defaults.
    pub fn new(q: Tensor<'a>, k: Tensor<'a>, v: Tensor<'a>, out: Tensor<'a>, lse: Tensor<'a>, d_out: Tensor<'a>) -> Self {
        Self {
            q,
            k,
            v,
            out,
            lse,
            max_logits: None,
            alibi_slopes: None,
            sinks: None,
            dropout_state: None,
            query_pieces: None,
            cu_seqlens_q: None,
            cu_seqlens_k: None,
            seqused_q: None,
            seqused_k: None,
            page_table: None,
            k_descale: None,
            v_descale: None,
            d_out,
            d_lse: None,
            dq: None,
            dk: None,
            dv: None,
            d_sinks: None,
            mask: Mask::default(),
            window_left: None,
            window_right: None,
            attention_chunk: None,
            missing_pages: false,
            batch_invariant: false,
            lse_base: LseBase::default(),
            sm_margin: 0,
            max_seqlen_q: None,
            max_seqlen_k: None,
            softcap: 0.0,
            softmax_scale: None,
            dropout_p: 0.0,
            dropout_seed: 0,
            dropout_offset: 0,
            empty_row_lse: EmptyRowLse::default(),
            scores: None,
            block_map: None,
            block_map_version: 0,
            determinism: Determinism::default(),
            stream: Stream::default(),
        }
    }

    pub(crate) fn tensors(&self) -> [*const sys::fa2_array; 23] {
        [
            self.q.raw(),
            self.k.raw(),
            self.v.raw(),
            self.out.raw(),
            self.lse.raw(),
            self.max_logits.raw(),
            self.alibi_slopes.raw(),
            self.sinks.raw(),
            self.dropout_state.raw(),
            self.query_pieces.raw(),
            self.cu_seqlens_q.raw(),
            self.cu_seqlens_k.raw(),
            self.seqused_q.raw(),
            self.seqused_k.raw(),
            self.page_table.raw(),
            self.k_descale.raw(),
            self.v_descale.raw(),
            self.d_out.raw(),
            self.d_lse.raw(),
            self.dq.raw(),
            self.dk.raw(),
            self.dv.raw(),
            self.d_sinks.raw(),
        ]
    }

    pub(crate) fn set_problem(&self, problem: &mut sys::fa2_problem) {
        problem.mask = self.mask as i32;
        (problem.has_window_left, problem.window_left) = optional(self.window_left);
        (problem.has_window_right, problem.window_right) = optional(self.window_right);
        (problem.has_attention_chunk, problem.attention_chunk) = optional(self.attention_chunk);
        problem.missing_pages = i32::from(self.missing_pages);
        problem.batch_invariant = i32::from(self.batch_invariant);
        problem.lse_base = self.lse_base as i32;
        problem.sm_margin = self.sm_margin;
        problem.seqlen_q = self.max_seqlen_q.unwrap_or(-1);
        problem.seqlen_k = self.max_seqlen_k.unwrap_or(-1);
        problem.softcap = i32::from(self.softcap != 0.0);
        problem.dropout = i32::from(self.dropout_p != 0.0);
        problem.score_text = self.scores.map_or(0, Scores::number);
    }

    pub(crate) fn set_args(&self, args: &mut sys::fa2_args) {
        args.softcap = self.softcap;
        (args.has_softmax_scale, args.softmax_scale) = optional(self.softmax_scale);
        args.dropout_probability = self.dropout_p;
        args.dropout_seed = self.dropout_seed;
        args.dropout_offset = self.dropout_offset;
        args.empty_row_lse = self.empty_row_lse as i32;
        (args.captures, args.capture_count) = self.scores.map_or((null(), 0), Scores::captures);
        args.block_map = self.block_map.map_or(null(), |map| map.raw());
        args.block_map_version = self.block_map_version;
    }

    pub(crate) fn set_backward(&self, backward: &mut sys::fa2_backward_args) {
        backward.determinism = self.determinism as i32;
    }
}
