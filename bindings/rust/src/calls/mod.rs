//! The calls of each operation, and problems.
//!
//! Shapes are in words of the problem. If a shape has several forms, the first one applies whose condition holds; `if NAME`
//! means that this tensor is given, or that this size is known.
#![allow(clippy::field_reassign_with_default)]

use std::{
    ffi::c_void,
    ptr::{null, null_mut},
};

use crate::{
    error::check, sys, tensor::Raw, BlockMap, DType, Determinism, EmptyRowLse, Error, KvType, LseBase, Mask,
    RotaryStyle, Scores, Stream, Tensor, TensorMut,
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

/// Returns the map for a call's launch, which makes it if need be, and removes it from the arguments: graphs must not read it.
/// The arguments keep a map that does not fit, and the library says why.
fn take_map(map: Option<&BlockMap>, args: &mut sys::fa2_args, scores: Option<&Scores<'_>>) -> *mut sys::fa2_block_map {
    match map {
        Some(map) if map.version() == args.block_map_version && scores.map_or(false, Scores::has_mask) => {
            (args.block_map, args.block_map_version) = (null(), 0);
            map.raw()
        }
        _ => null_mut(),
    }
}

/// Calls `launch`, alone with the map that the call may have.
pub(crate) fn locked(
    map: Option<&BlockMap>,
    device: i32,
    stream: Stream,
    launch: impl FnOnce() -> sys::fa2_status,
) -> Result<(), Error> {
    match map {
        Some(map) => map.lock(device, stream, launch),
        None => check(launch()),
    }
}

/// Calls `body` with `device` as the thread's current device. `body` must not panic.
pub(crate) fn on_device<F: FnMut() -> sys::fa2_status>(device: i32, mut body: F) -> Result<(), Error> {
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
// the device of the call; kernels keep each index inside their sizes. Maps of blocks have the problem's sizes, and kernels look
// for blocks only where keys exist, whatever a map says. Tensors made of slices lie on the interpreter, where a call has ended
// when it returns, and Rust's borrows keep them alive and apart until then. from_raw_parts() demands the same for memory of GPUs.

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
        let Bound { problem, mut args, place } = self.bind()?;
        let block_map = take_map(self.block_map, &mut args, self.scores);
        let launch = sys::fa2_launch { place, stream: self.stream.raw(), block_map, ..Default::default() };
        // SAFETY: above.
        locked(self.block_map, place.device, self.stream, || unsafe {
            sys::fa2_launch_attention(&problem, &args, &launch)
        })
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
        let block_map = take_map(self.block_map, &mut forward, self.scores);
        let tensors = self.tensors();
        // SAFETY: above. `args` points to `forward`, which lives as long.
        check(unsafe {
            sys::fa2_bind_backward(tensors.as_ptr(), tensors.len(), &mut problem, &mut forward, &mut args, &mut place)
        })?;
        require_on(place.device, self.scores)?;
        let launch = sys::fa2_launch { place, stream: self.stream.raw(), block_map, ..Default::default() };
        // SAFETY: above.
        locked(self.block_map, place.device, self.stream, || unsafe {
            sys::fa2_launch_backward(&problem, &args, &launch)
        })
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
