use std::{ffi::CStr, fmt, os::raw::c_char};

use crate::sys;

/// Why a call failed. Each message lists everything that was wrong, as `NAME = GIVEN, must EXPECTED: DO`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// the request itself is wrong; nothing was launched or written
    InvalidRequest(String),
    /// a kernel did not compile, or broke a resource rule
    Compile(String),
    /// a kernel cache that the call depends on could not be read or written
    Cache(String),
    /// the CUDA driver returned an error
    Cuda(String),
    /// something needed is missing: libcuda, NVRTC, a GPU, a precompiled kernel
    Unavailable(String),
    /// a bug in fa2, or no host memory left
    Internal(String),
    /// an interpreted kernel violated a PTX rule
    KernelFault(String),
    /// the program ended the work; outputs may hold anything
    Interrupted(String),
    /// ranks could not exchange data; outputs may hold anything
    Communication(String),
}

impl Error {
    /// Returns what was wrong, and what to do.
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidRequest(text)
            | Self::Compile(text)
            | Self::Cache(text)
            | Self::Cuda(text)
            | Self::Unavailable(text)
            | Self::Internal(text)
            | Self::KernelFault(text)
            | Self::Interrupted(text)
            | Self::Communication(text) => text,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

/// Turns the status of a C function, which this thread has just called, into a result.
pub(crate) fn check(status: sys::fa2_status) -> Result<(), Error> {
    let kind = match status {
        sys::FA2_OK => return Ok(()),
        sys::FA2_INVALID_REQUEST => Error::InvalidRequest,
        sys::FA2_COMPILE => Error::Compile,
        sys::FA2_CACHE => Error::Cache,
        sys::FA2_CUDA => Error::Cuda,
        sys::FA2_UNAVAILABLE => Error::Unavailable,
        sys::FA2_KERNEL_FAULT => Error::KernelFault,
        sys::FA2_INTERRUPTED => Error::Interrupted,
        sys::FA2_COMMUNICATION => Error::Communication,
        _ => Error::Internal,
    };
    // SAFETY: the message is never null, and this thread's next failure cannot come before the copy is made.
    let message = unsafe { CStr::from_ptr(sys::fa2_last_error()) };
    Err(kind(message.to_string_lossy().into_owned()))
}

/// Copies and frees a string that fa2 made; null is "".
///
/// # Safety
/// `text` must be null or a string of fa2 that nobody has freed.
pub(crate) unsafe fn take_string(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as this function demands; fa2's strings end with a NUL.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        sys::fa2_string_free(text);
        copy
    }
}
