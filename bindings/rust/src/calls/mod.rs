//! The calls of each operation, and problems.
//!
//! Shapes are in words of the problem. If a shape has several forms, the first one applies whose condition holds; `if NAME`
//! means that this tensor is given, or that this size is known.
#![allow(clippy::field_reassign_with_default)]

use std::{ffi::c_void, ptr::null};

use crate::{
    error::check, sys, tensor::Raw, DType, Determinism, EmptyRowLse, Error, KvType, LseBase, Mask, RotaryStyle, Scores,
    Stream, Tensor, TensorMut,
};

#[rustfmt::skip]
mod append;
#[rustfmt::skip]
mod attention;
#[rustfmt::skip]
mod backward;
#[rustfmt::skip]
mod merge;
#[rustfmt::skip]
mod problem;

pub use append::Append;
pub use attention::Attention;
pub use backward::Backward;
pub use merge::Merge;
pub use problem::Problem;

/// Returns the two fields of an optional value in a C struct.
fn optional<T: Default>(value: Option<T>) -> (i32, T) {
    (i32::from(value.is_some()), value.unwrap_or_default())
}

/// What the library finds in the tensors of a call.
pub(crate) struct Bound {
    pub problem: sys::fa2_problem,
    pub args: sys::fa2_args,
    pub place: sys::fa2_placement,
}

fn launch_at(place: sys::fa2_placement, stream: Stream) -> sys::fa2_launch {
    sys::fa2_launch { place, stream: stream.raw(), ..Default::default() }
}

/// Calls `body` with `device` as the thread's current device. `body` must not panic.
fn on_device<F: FnMut() -> sys::fa2_status>(device: i32, mut body: F) -> Result<(), Error> {
    unsafe extern "C" fn call<F: FnMut() -> sys::fa2_status>(data: *mut c_void) -> sys::fa2_status {
        // SAFETY: `data` is the address of `body`, which nothing else uses meanwhile.
        unsafe { (*data.cast::<F>())() }
    }
    let data: *mut F = &mut body;
    // SAFETY: fa2_on_device() calls `call` with this pointer before it returns.
    check(unsafe { sys::fa2_on_device(device, Some(call::<F>), data.cast()) })
}

/// Checks that captures lie where the call's tensors do.
fn require_on(device: i32, scores: Option<&Scores<'_>>) -> Result<(), Error> {
    scores.map_or(Ok(()), |scores| scores.require_on(device))
}

// SAFETY of the functions below: the library compares all shapes, strides, types and devices when it binds tensors, and
// rejects a call that would reach outside of them; kernels cut lengths and page numbers that tables hold to what exists
// (include/fa2/c_tensors.h, c_api.h). Captures have the types and dimensions of the texts that `Scores` has made, and lie on
// the device of the call; kernels keep each index inside their sizes. Tensors made of slices lie on the interpreter, where a call has ended when it returns,
// and Rust's borrows keep them alive and apart until then. from_raw_parts() demands the same for memory of GPUs.

impl Attention<'_> {
    pub(crate) fn bind(&self) -> Result<Bound, Error> {
        let (mut problem, mut args) = (sys::fa2_problem::default(), sys::fa2_args::default());
        let mut place = sys::fa2_placement::default();
        self.set_problem(&mut problem);
        self.set_args(&mut args);
        let tensors = self.tensors();
        // SAFETY: above.
        check(unsafe {
            sys::fa2_bind_attention(tensors.as_ptr(), tensors.len(), &mut problem, &mut args, &mut place)
        })?;
        require_on(place.device, self.scores)?;
        Ok(Bound { problem, args, place })
    }

    /// Computes attention, with a plan of the process's default context. The first call for a problem compiles its kernel;
    /// later calls find the plan. On a GPU it enqueues the work and returns.
    pub fn run(&mut self) -> Result<(), Error> {
        let bound = self.bind()?;
        let launch = launch_at(bound.place, self.stream);
        // SAFETY: above.
        check(unsafe { sys::fa2_launch_attention(&bound.problem, &bound.args, &launch) })
    }
}

impl Backward<'_> {
    /// Computes the gradients that are given, like [`Attention::run`]. Numbers and tables must be those of the forward.
    pub fn run(&mut self) -> Result<(), Error> {
        let (mut problem, mut forward) = (sys::fa2_problem::default(), sys::fa2_args::default());
        let (mut args, mut place) = (sys::fa2_backward_args::default(), sys::fa2_placement::default());
        self.set_problem(&mut problem);
        self.set_args(&mut forward);
        self.set_backward(&mut args);
        let tensors = self.tensors();
        // SAFETY: above. `args` points to `forward`, which lives as long.
        check(unsafe {
            sys::fa2_bind_backward(tensors.as_ptr(), tensors.len(), &mut problem, &mut forward, &mut args, &mut place)
        })?;
        require_on(place.device, self.scores)?;
        let launch = launch_at(place, self.stream);
        // SAFETY: above.
        check(unsafe { sys::fa2_launch_backward(&problem, &args, &launch) })
    }
}

impl Append<'_> {
    /// Appends, and rotates, with the process's default context. No two sequences may append to the same rows of a cache: the
    /// interpreter rejects that, and a GPU would write a mixture.
    pub fn run(&mut self) -> Result<(), Error> {
        let (mut problem, mut args) = (sys::fa2_append_problem::default(), sys::fa2_append_args::default());
        let mut place = sys::fa2_placement::default();
        self.set_problem(&mut problem);
        let (tensors, stream) = (self.tensors(), self.stream.raw());
        // SAFETY: above.
        check(unsafe { sys::fa2_bind_append(tensors.as_ptr(), tensors.len(), &mut problem, &mut args, &mut place) })?;
        // SAFETY: above. A null context is the default one.
        on_device(place.device, || unsafe { sys::fa2_append(std::ptr::null_mut(), &problem, &args, stream) })
    }
}

impl Merge<'_> {
    /// Merges with the process's default context.
    pub fn run(&mut self) -> Result<(), Error> {
        let (mut problem, mut args) = (sys::fa2_merge_problem::default(), sys::fa2_merge_args::default());
        let mut place = sys::fa2_placement::default();
        self.set_problem(&mut problem);
        self.set_args(&mut args);
        let (tensors, stream) = (self.tensors(), self.stream.raw());
        // SAFETY: above.
        check(unsafe { sys::fa2_bind_merge(tensors.as_ptr(), tensors.len(), &mut problem, &mut args, &mut place) })?;
        // SAFETY: above. A null context is the default one.
        on_device(place.device, || unsafe { sys::fa2_merge(std::ptr::null_mut(), &problem, &args, stream) })
    }
}
