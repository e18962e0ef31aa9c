#![doc = include_str!("../README.md")]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod block_map;
mod calls;
mod context;
mod error;
mod half;
mod score_text;
pub mod sys;
mod tensor;
mod words;

pub use block_map::BlockMap;
pub use calls::{Append, Attention, Backward, Merge, Problem};
pub use context::{add_pack, Context, ContextOptions, Plan, PrecompileOptions};
pub use error::Error;
pub use half::{Bf16, F16, F8E4M3};
pub use score_text::{Capture, ScoreTexts, Scores};
pub use tensor::{contiguous_strides, Device, Element, Stream, Tensor, TensorMut};
pub use words::{
    DType, Determinism, EmptyRowLse, Jit, KvType, LseBase, Mask, PrecompileScope, RotaryStyle, RowAlignment, Tune,
};

/// Returns the library's version, "0.1.0".
pub fn version() -> &'static str {
    // SAFETY: the library returns a static string.
    let version = unsafe { std::ffi::CStr::from_ptr(sys::fa2_version()) };
    version.to_str().unwrap_or("")
}
