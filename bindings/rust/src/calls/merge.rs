// Written from the rows of the C++ structs by fa2_write_files: do not edit.
use super::*;

/// One call that merges attention over disjoint sets of keys into attention over all of them.
#[derive(Debug)]
pub struct Merge<'a> {
    /// partial outputs, each normalised; (parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads,
    /// head_dim); or float32
    pub out_parts: Tensor<'a>,
    /// log-sum-exp of each part's rows, to the base lse_base; either infinity for a row without a key;
    /// (parts, batch, heads, seqlen) if batch | (parts, heads, seqlen); float32
    pub lse_parts: Tensor<'a>,
    /// the merged output; (batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim); or float32
    pub out: TensorMut<'a>,
    /// log-sum-exp of each merged row; (batch, heads, seqlen) if batch | (heads, seqlen); float32; optional
    pub lse: Option<TensorMut<'a>>,
    /// the base of the logarithm in LSE, of the parts and of the result
    pub lse_base: LseBase,
    /// the LSE of a row for which no part has a key; its O is 0
    pub empty_row_lse: EmptyRowLse,
    /// where the call is enqueued; ignored on the interpreter
    pub stream: Stream,
}

impl<'a> Merge<'a> {
    /// Returns a call without optional tensors, whose numbers are the defaults.
    pub fn new(out_parts: Tensor<'a>, lse_parts: Tensor<'a>, out: TensorMut<'a>) -> Self {
        Self {
            out_parts,
            lse_parts,
            out,
            lse: None,
            lse_base: LseBase::default(),
            empty_row_lse: EmptyRowLse::default(),
            stream: Stream::default(),
        }
    }

    pub(crate) fn tensors(&self) -> [*const sys::fa2_array; 4] {
        [
            self.out_parts.raw(),
            self.lse_parts.raw(),
            self.out.raw(),
            self.lse.raw(),
        ]
    }

    pub(crate) fn set_problem(&self, problem: &mut sys::fa2_merge_problem) {
        problem.lse_base = self.lse_base as i32;
    }

    pub(crate) fn set_args(&self, args: &mut sys::fa2_merge_args) {
        args.empty_row_lse = self.empty_row_lse as i32;
    }
}
