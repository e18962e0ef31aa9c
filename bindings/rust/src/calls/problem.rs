// Written from the rows of the C++ structs by fa2_write_files: do not edit.
use super::*;

/// What attention computes, with its sizes: for plans and precompilation. A call finds its problem from its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// element type of Q and O, and of K and V unless kv_type says another
    pub dtype: DType,
    /// head dimension of Q and K, a multiple of 8 in 8..576
    pub head_dim: i32,
    /// head dimension of V and O, a multiple of 8 in 8..512; 0: head_dim
    pub head_dim_v: i32,
    /// which keys a query sees
    pub mask: Mask,
    /// sliding window: how many keys before its own a query sees
    pub window_left: Option<i64>,
    /// how many keys after its own a query sees
    pub window_right: Option<i64>,
    /// chunked local attention: a query sees only keys of its own chunk of so many
    pub attention_chunk: Option<i64>,
    /// scores become cap * tanh(score / cap)
    pub softcap: bool,
    /// ALiBi: scores fall with the distance of the key, by a slope per head
    pub alibi: bool,
    /// attention sinks: a logit per head joins the softmax
    pub sinks: bool,
    /// probabilities are dropped at random
    pub dropout: bool,
    /// queries are two pieces of a longer sequence
    pub query_pieces: bool,
    /// sequences have lengths of their own, which only the device knows
    pub varlen: bool,
    /// rows per page of K and V; 0: they are not paged
    pub page_size: i32,
    /// entries of the page table that name no page hide their keys, as -1 in lists of single keys
    pub missing_pages: bool,
    /// element type of K and V: that of Q, 8 bits, or the rows of DeepSeek-V3.2
    pub kv_type: KvType,
    /// V is the first columns of K, as in latent attention (MLA)
    pub values_in_keys: bool,
    /// the bits of a sequence do not depend on the batch
    pub batch_invariant: bool,
    /// the base of the logarithm in LSE
    pub lse_base: LseBase,
    /// the largest logit of each head is written
    pub max_logits: bool,
    /// dK and dV are float32: parts of a sum
    pub float32_dk_dv: bool,
    /// dQ is float32: a part of a sum
    pub float32_dq: bool,
    /// O is float32: a part of a merge
    pub float32_out: bool,
    /// SMs that persistent kernels leave to other kernels
    pub sm_margin: i32,
    /// number of make_score_text(): functions of scores; 0: none
    pub score_text: i64,
    /// sequences
    pub batch: i64,
    /// query heads
    pub heads_q: i64,
    /// key and value heads, dividing heads_q; 0: heads_q
    pub heads_kv: i64,
    /// queries; with varlen of the longest sequence
    pub seqlen_q: i64,
    /// keys; with varlen of the longest sequence
    pub seqlen_k: i64,
    /// queries of all sequences, packed; 0: batched
    pub total_q: i64,
    /// keys of all sequences, packed; 0: batched
    pub total_k: i64,
    /// pages that K and V have
    pub page_count: i64,
}

impl Default for Problem {
    fn default() -> Self {
        Self {
            dtype: DType::default(),
            head_dim: 0,
            head_dim_v: 0,
            mask: Mask::default(),
            window_left: None,
            window_right: None,
            attention_chunk: None,
            softcap: false,
            alibi: false,
            sinks: false,
            dropout: false,
            query_pieces: false,
            varlen: false,
            page_size: 0,
            missing_pages: false,
            kv_type: KvType::default(),
            values_in_keys: false,
            batch_invariant: false,
            lse_base: LseBase::default(),
            max_logits: false,
            float32_dk_dv: false,
            float32_dq: false,
            float32_out: false,
            sm_margin: 0,
            score_text: 0,
            batch: 1,
            heads_q: 1,
            heads_kv: 0,
            seqlen_q: 0,
            seqlen_k: 0,
            total_q: 0,
            total_k: 0,
            page_count: 0,
        }
    }
}

impl Problem {
    pub(crate) fn raw(&self) -> sys::fa2_problem {
        let mut problem = sys::fa2_problem::default();
        problem.dtype = self.dtype as i32;
        problem.head_dim = self.head_dim;
        problem.head_dim_v = self.head_dim_v;
        problem.mask = self.mask as i32;
        (problem.has_window_left, problem.window_left) = optional(self.window_left);
        (problem.has_window_right, problem.window_right) = optional(self.window_right);
        (problem.has_attention_chunk, problem.attention_chunk) = optional(self.attention_chunk);
        problem.softcap = i32::from(self.softcap);
        problem.alibi = i32::from(self.alibi);
        problem.sinks = i32::from(self.sinks);
        problem.dropout = i32::from(self.dropout);
        problem.query_pieces = i32::from(self.query_pieces);
        problem.varlen = i32::from(self.varlen);
        problem.page_size = self.page_size;
        problem.missing_pages = i32::from(self.missing_pages);
        problem.kv_type = self.kv_type as i32;
        problem.values_in_keys = i32::from(self.values_in_keys);
        problem.batch_invariant = i32::from(self.batch_invariant);
        problem.lse_base = self.lse_base as i32;
        problem.max_logits = i32::from(self.max_logits);
        problem.float32_dk_dv = i32::from(self.float32_dk_dv);
        problem.float32_dq = i32::from(self.float32_dq);
        problem.float32_out = i32::from(self.float32_out);
        problem.sm_margin = self.sm_margin;
        problem.score_text = self.score_text;
        problem.batch = self.batch;
        problem.heads_q = self.heads_q;
        problem.heads_kv = self.heads_kv;
        problem.seqlen_q = self.seqlen_q;
        problem.seqlen_k = self.seqlen_k;
        problem.total_q = self.total_q;
        problem.total_k = self.total_k;
        problem.page_count = self.page_count;
        problem
    }
}
