//! Memory of GPU 0, from libcuda, which is opened at run time. A program with tensors of its own already has this.

use std::{
    ffi::{c_void, CStr},
    marker::PhantomData,
    mem::{size_of, size_of_val, transmute_copy},
    os::raw::{c_char, c_int, c_uint},
    ptr::null_mut,
};

use fa2::Element;

#[link(name = "dl")]
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;

type Address = u64;

/// The functions of libcuda that the example needs, with the context of GPU 0 current.
pub struct Gpu {
    alloc: unsafe extern "C" fn(*mut Address, usize) -> c_int,
    free: unsafe extern "C" fn(Address) -> c_int,
    to_gpu: unsafe extern "C" fn(Address, *const c_void, usize) -> c_int,
    to_host: unsafe extern "C" fn(*mut c_void, Address, usize) -> c_int,
    /// Contexts are current in one thread.
    _thread: PhantomData<*mut c_void>,
}

/// Memory of the GPU for `len` elements.
pub struct Buffer<'gpu, T> {
    gpu: &'gpu Gpu,
    address: Address,
    len: usize,
    elements: PhantomData<T>,
}

impl Gpu {
    /// Opens GPU 0; none without a driver or a GPU.
    pub fn open() -> Option<Self> {
        // SAFETY: names end with a NUL, and the types are those of cuda.h.
        unsafe {
            let library = dlopen(b"libcuda.so.1\0".as_ptr().cast(), RTLD_NOW);
            if library.is_null() {
                return None;
            }
            let init: unsafe extern "C" fn(c_uint) -> c_int = function(library, b"cuInit\0")?;
            let device: unsafe extern "C" fn(*mut c_int, c_int) -> c_int = function(library, b"cuDeviceGet\0")?;
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                function(library, b"cuDevicePrimaryCtxRetain\0")?;
            let set_current: unsafe extern "C" fn(*mut c_void) -> c_int = function(library, b"cuCtxSetCurrent\0")?;
            let (mut ordinal, mut context) = (0, null_mut());
            if init(0) != 0 || device(&mut ordinal, 0) != 0 {
                return None;
            }
            if retain(&mut context, ordinal) != 0 || set_current(context) != 0 {
                return None;
            }
            Some(Self {
                alloc: function(library, b"cuMemAlloc_v2\0")?,
                free: function(library, b"cuMemFree_v2\0")?,
                to_gpu: function(library, b"cuMemcpyHtoD_v2\0")?,
                to_host: function(library, b"cuMemcpyDtoH_v2\0")?,
                _thread: PhantomData,
            })
        }
    }

    /// Allocates memory, and copies `data` to it.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<'_, T>, String> {
        let mut buffer = Buffer { gpu: self, address: 0, len: data.len(), elements: PhantomData };
        let bytes = size_of_val(data);
        if bytes > 0 {
            // SAFETY: `address` outlives the call, and both sides have `bytes` bytes.
            unsafe {
                check("cuMemAlloc", (self.alloc)(&mut buffer.address, bytes))?;
                check("cuMemcpyHtoD", (self.to_gpu)(buffer.address, data.as_ptr().cast(), bytes))?;
            }
        }
        Ok(buffer)
    }
}

impl<T: Element> Buffer<'_, T> {
    pub fn as_ptr(&self) -> *const T {
        self.address as *const T
    }

    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.address as *mut T
    }

    /// Waits for the legacy default stream, and copies the memory to `data`.
    pub fn download(&self, data: &mut [T]) -> Result<(), String> {
        assert_eq!(data.len(), self.len);
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: both sides have as many bytes, and every pattern of bits is an element.
        let status = unsafe { (self.gpu.to_host)(data.as_mut_ptr().cast(), self.address, self.len * size_of::<T>()) };
        check("cuMemcpyDtoH", status)
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the memory is the buffer's own. cuMemFree waits for work that uses it.
        unsafe { (self.gpu.free)(self.address) };
    }
}

fn check(function: &str, status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    Err(format!("{function} = {status}, must be 0 (CUDA_SUCCESS)"))
}

/// Returns a function of the library.
///
/// # Safety
/// `F` must be its type, and `name` must end with a NUL.
unsafe fn function<F: Copy>(library: *mut c_void, name: &[u8]) -> Option<F> {
    let name = CStr::from_bytes_with_nul(name).ok()?;
    // SAFETY: as above; a pointer to a function has the size of an address.
    unsafe {
        let address = dlsym(library, name.as_ptr());
        (!address.is_null()).then(|| transmute_copy::<*mut c_void, F>(&address))
    }
}
