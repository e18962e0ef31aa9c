use std::{
    ffi::c_void,
    fmt::Debug,
    marker::PhantomData,
    os::raw::c_int,
    ptr::{null, null_mut},
};

use crate::{sys, Bf16, Error, F16, F8E4M3};

const MOST_DIMENSIONS: usize = sys::FA2_MOST_DIMENSIONS as usize;

/// Where tensors lie and kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// the CPU: kernels are interpreted and checked, slowly
    Interpreter,
    /// the GPU with this CUDA ordinal
    Cuda(u16),
}

impl Device {
    pub(crate) fn raw(self) -> i32 {
        match self {
            Self::Interpreter => sys::FA2_INTERPRETER_DEVICE,
            Self::Cuda(ordinal) => i32::from(ordinal),
        }
    }
}

/// A stream of the GPU on which a call's tensors lie. The default is CUDA's legacy default stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream(*mut c_void);

impl Stream {
    /// Returns the stream of a `CUstream` or `cudaStream_t`.
    ///
    /// # Safety
    /// `stream` must be null or a stream of the device of each call that it is given to, and must exist during the call.
    pub unsafe fn from_raw(stream: *mut c_void) -> Self {
        Self(stream)
    }

    pub(crate) fn raw(self) -> *mut c_void {
        self.0
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self(null_mut())
    }
}

// SAFETY: CUDA's functions take a stream from any thread.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

mod sealed {
    pub trait Sealed {}
}

/// A type of tensor elements: [`F16`], [`Bf16`], `f32`, `i32`, `i64`, `u8`, [`F8E4M3`], or `bool` in captures.
pub trait Element: Copy + Debug + sealed::Sealed + 'static {
    #[doc(hidden)]
    const DTYPE: i32;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident,)*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: i32 = sys::$dtype;
        })*
    };
}
elements! {
    F16: FA2_F16,
    Bf16: FA2_BF16,
    f32: FA2_FLOAT32,
    i32: FA2_INT32,
    i64: FA2_INT64,
    u8: FA2_UINT8,
    F8E4M3: FA2_FLOAT8_E4M3FN,
    bool: FA2_CAPTURED_BOOL,
}

/// A view of memory that calls only read.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    array: sys::fa2_array,
    memory: PhantomData<&'a [u8]>,
}

/// A view of memory that calls read and write.
#[derive(Debug)]
pub struct TensorMut<'a> {
    array: sys::fa2_array,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: the views are like `&[T]` and `&mut [T]`, and elements are plain numbers. Shared, neither gives access to memory.
unsafe impl Send for Tensor<'_> {}
unsafe impl Sync for Tensor<'_> {}
unsafe impl Send for TensorMut<'_> {}
unsafe impl Sync for TensorMut<'_> {}

impl<'a> Tensor<'a> {
    pub(crate) fn array(&self) -> &sys::fa2_array {
        &self.array
    }

    /// Returns a contiguous view of host memory, in C order, for the interpreter. `shape` must hold exactly the slice.
    pub fn new<T: Element>(data: &'a [T], shape: &[usize]) -> Result<Self, Error> {
        Self::strided(data, 0, shape, &strides_of(data.len(), shape)?)
    }

    /// Returns a view of host memory, for the interpreter. Index (i, j, ...) is element
    /// `offset + i * strides[0] + j * strides[1] + ...` of the slice, and must lie inside it.
    pub fn strided<T: Element>(
        data: &'a [T],
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self, Error> {
        require_inside(data.len(), offset, shape, strides)?;
        // A pointer into the whole slice: negative strides reach elements before the first one.
        let first = data.as_ptr().wrapping_add(offset.min(data.len()));
        let array = array_of(first as *mut T, Device::Interpreter, shape, strides, sys::FA2_READ_ONLY)?;
        Ok(Self { array, memory: PhantomData })
    }

    /// Returns a view of memory of a GPU. `data` is the address of index (0, 0, ...); strides count elements.
    ///
    /// # Safety
    /// Calls enqueue work and return. From the call until its work has finished, for each call that takes the view:
    /// - every element that shape and strides reach must lie in one allocation that GPU `ordinal` can access, be aligned
    ///   to its size, and exist, also if `'a` ends before;
    /// - nothing may write to it but work that the stream orders before or after the call's;
    /// - the [`Plan`](crate::Plan) that runs the call, or the [`Context`](crate::Context) that made it, must exist;
    /// - the call's [`BlockMap`](crate::BlockMap) must exist, tables of lengths must hold what they held when it was made, and the
    ///   stream must order all calls with it: two threads' default streams (`CU_STREAM_PER_THREAD`) share a handle, but do not.
    ///
    /// If the call is captured into a graph, this holds until the graph's last launch has finished.
    pub unsafe fn from_raw_parts<T: Element>(
        data: *const T,
        ordinal: u16,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self, Error> {
        let array = array_of(data as *mut T, Device::Cuda(ordinal), shape, strides, sys::FA2_READ_ONLY)?;
        Ok(Self { array, memory: PhantomData })
    }
}

impl<'a> TensorMut<'a> {
    /// Returns a contiguous view of host memory, like [`Tensor::new`].
    pub fn new<T: Element>(data: &'a mut [T], shape: &[usize]) -> Result<Self, Error> {
        let strides = strides_of(data.len(), shape)?;
        Self::strided(data, 0, shape, &strides)
    }

    /// Returns a view of host memory, like [`Tensor::strided`]. Calls reject outputs whose rows overlap.
    pub fn strided<T: Element>(
        data: &'a mut [T],
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self, Error> {
        require_inside(data.len(), offset, shape, strides)?;
        let first = data.as_mut_ptr().wrapping_add(offset.min(data.len()));
        let array = array_of(first, Device::Interpreter, shape, strides, 0)?;
        Ok(Self { array, memory: PhantomData })
    }

    /// Returns a view of memory of a GPU, like [`Tensor::from_raw_parts`].
    ///
    /// # Safety
    /// As [`Tensor::from_raw_parts`] demands. In addition, nothing but work that the stream orders before or after the
    /// call's may read the memory, and no other tensor of the call may overlap it unless `include/fa2/c_api.h` allows it.
    pub unsafe fn from_raw_parts<T: Element>(
        data: *mut T,
        ordinal: u16,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self, Error> {
        let array = array_of(data, Device::Cuda(ordinal), shape, strides, 0)?;
        Ok(Self { array, memory: PhantomData })
    }
}

/// A tensor as the C interface takes it; null: not given.
pub(crate) trait Raw {
    fn raw(&self) -> *const sys::fa2_array;
}

impl Raw for Tensor<'_> {
    fn raw(&self) -> *const sys::fa2_array {
        &self.array
    }
}

impl Raw for TensorMut<'_> {
    fn raw(&self) -> *const sys::fa2_array {
        &self.array
    }
}

impl<T: Raw> Raw for Option<T> {
    fn raw(&self) -> *const sys::fa2_array {
        self.as_ref().map_or(null(), T::raw)
    }
}

fn array_of<T: Element>(
    data: *mut T,
    device: Device,
    shape: &[usize],
    strides: &[isize],
    flags: c_int,
) -> Result<sys::fa2_array, Error> {
    if shape.len() > MOST_DIMENSIONS {
        return invalid(format!("shape = {shape:?}, must have at most {MOST_DIMENSIONS} dimensions"));
    }
    if strides.len() != shape.len() {
        return invalid(format!("strides = {strides:?}, must have as many dimensions as shape = {shape:?}"));
    }
    let mut array = sys::fa2_array {
        data: data.cast(),
        dtype: T::DTYPE,
        device: device.raw(),
        ndim: shape.len() as i32,
        flags,
        ..Default::default()
    };
    for (i, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
        // The library rejects extents above 2^48.
        array.shape[i] = i64::try_from(extent).unwrap_or(i64::MAX);
        array.strides[i] = stride as i64;
    }
    Ok(array)
}

/// Returns the strides of a contiguous tensor, in C order; elements.
pub fn contiguous_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        // A product that wraps belongs to a shape that fits no memory, or has no element.
        next = next.wrapping_mul(extent as isize);
    }
    strides
}

/// Returns the strides of a contiguous tensor, which must have exactly `len` elements.
fn strides_of(len: usize, shape: &[usize]) -> Result<Vec<isize>, Error> {
    let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
    if count != Some(len) {
        return invalid(format!("shape = {shape:?}, must hold the {len} elements of the slice"));
    }
    Ok(contiguous_strides(shape))
}

/// Checks that every index of a tensor lies inside a slice of `len` elements.
fn require_inside(len: usize, offset: usize, shape: &[usize], strides: &[isize]) -> Result<(), Error> {
    if shape.contains(&0) {
        return Ok(());
    }
    // One term is below 2^127, and saturated sums lie outside of every slice.
    let (mut first, mut last) = (offset as i128, offset as i128);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let way = (extent as i128 - 1) * stride as i128;
        first = first.saturating_add(way.min(0));
        last = last.saturating_add(way.max(0));
    }
    if first < 0 || last >= len as i128 {
        return invalid(format!(
            "offset = {offset}, shape = {shape:?}, strides = {strides:?}, must stay inside the {len} elements of the \
             slice: they reach elements {first} to {last}"
        ));
    }
    Ok(())
}

fn invalid<T>(message: String) -> Result<T, Error> {
    Err(Error::InvalidRequest(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(len: usize, offset: usize, shape: &[usize], strides: &[isize]) -> bool {
        Tensor::strided(&vec![0u8; len], offset, shape, strides).is_ok()
    }

    #[test]
    fn strided_views_lie_inside_their_slice() {
        assert!(inside(12, 0, &[3, 4], &[4, 1]));
        assert!(!inside(11, 0, &[3, 4], &[4, 1]));
        assert!(inside(12, 11, &[3, 4], &[-4, -1]));
        assert!(!inside(12, 10, &[3, 4], &[-4, -1]));
        assert!(!inside(12, 12, &[3, 4], &[-4, -1]));
        assert!(inside(1, 0, &[1000, 1000], &[0, 0]));
        assert!(inside(1, 0, &[1], &[isize::MAX]));
        assert!(inside(1, 0, &[], &[]) && !inside(0, 0, &[], &[]));
    }

    #[test]
    fn a_tensor_without_elements_reaches_nothing() {
        assert!(inside(0, 0, &[0, 8], &[8, 1]));
        assert!(inside(0, usize::MAX, &[0], &[isize::MIN]));
    }

    #[test]
    fn huge_extents_and_strides_do_not_wrap() {
        for stride in [isize::MAX, isize::MIN, 1 << 62, -1 << 62, 1 << 32] {
            assert!(!inside(16, 8, &[3], &[stride]), "{stride}");
            assert!(!inside(16, 8, &[usize::MAX; 5], &[stride; 5]), "{stride}");
            // Two terms that cancel out still reach far in between.
            assert!(!inside(16, 8, &[5, 5], &[stride, stride.wrapping_neg()]), "{stride}");
        }
        assert!(!inside(16, usize::MAX, &[2], &[1]));
        assert!(Tensor::new(&[0u8; 4], &[1 << 62, 4]).is_err());
    }

    #[test]
    fn ranks_and_lengths_agree() {
        assert!(!inside(1, 0, &[1; 6], &[1; 6]));
        assert!(!inside(1, 0, &[1, 1], &[1]) && !inside(1, 0, &[1], &[1, 1]));
        assert!(Tensor::new(&[1.0f32; 6], &[2, 3]).is_ok() && Tensor::new(&[1.0f32; 6], &[2, 2]).is_err());
    }
}
