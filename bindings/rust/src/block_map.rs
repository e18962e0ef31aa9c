use std::{
    ptr::{null_mut, NonNull},
    sync::{Mutex, PoisonError},
};

use crate::{calls::on_device, error::check, sys, Error, Stream};

/// The blocks of keys that the text of a mask shows, held between calls for which it shows the same: with the same captured
/// values, and the same tables of lengths of packed sequences. With others, results are wrong.
///
/// Calls take it as `block_map`. Their `run()` makes the map if their kernel has none yet, and reads it later. A forward and its
/// gradients may share one. [`Plan::run`](crate::Plan::run) reads it, but makes a map in each launch if it finds none. While a
/// stream is captured into a graph, `run()` ignores the map.
///
/// All calls must have the same mask, sizes, device and stream. Threads may share a map; one call waits for the other.
#[derive(Debug)]
pub struct BlockMap {
    raw: NonNull<sys::fa2_block_map>,
    version: u64,
    place: Mutex<Option<Place>>, // of all calls: that of the first one; none before it
}

/// The device on which a map lies, and the stream that orders its calls behind the launch that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: i32,
    stream: usize, // 0 on the interpreter
}

// SAFETY: include/fa2/block_map.h calls maps thread-safe, but a map must not be made while another call reads it. lock() sees to that.
unsafe impl Send for BlockMap {}
unsafe impl Sync for BlockMap {}

impl BlockMap {
    /// Returns a map without any blocks yet. `version` is the caller's name for what captures and tables of lengths hold: a call
    /// whose `block_map_version` is another is an error. Count it up with every change, and an outdated map is found out.
    pub fn new(version: u64) -> Result<Self, Error> {
        let mut map = null_mut();
        // SAFETY: the pointer is valid during the call.
        check(unsafe { sys::fa2_block_map_create(version, &mut map) })?;
        let raw = NonNull::new(map).expect("fa2_block_map_create() sets the map if it returns FA2_OK");
        Ok(Self { raw, version, place: Mutex::new(None) })
    }

    /// Returns the version that new() got.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the map, for the arguments and the launch of a call that lock() makes.
    pub(crate) fn raw(&self) -> *mut sys::fa2_block_map {
        self.raw.as_ptr()
    }

    /// Calls `launch`, whose work makes or reads the map, while no other call uses it.
    pub(crate) fn lock(
        &self,
        device: i32,
        stream: Stream,
        launch: impl FnOnce() -> sys::fa2_status,
    ) -> Result<(), Error> {
        let on_interpreter = device == sys::FA2_INTERPRETER_DEVICE;
        let given = Place { device, stream: if on_interpreter { 0 } else { stream.raw() as usize } };
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        // Set before the launch: one that fails may have made the map.
        let first = *place.get_or_insert(given);
        first.require_same(given)?;
        check(launch())
    }
}

impl Place {
    fn require_same(self, given: Self) -> Result<(), Error> {
        if self == given {
            return Ok(());
        }
        let text = |place: Self| format!("device {}, stream {:#x}", place.device, place.stream);
        let (first, given) = (text(self), text(given));
        Err(Error::InvalidRequest(format!(
            "block_map = of {first}, must be a map of {given}, the call's: make another map"
        )))
    }
}

impl Drop for BlockMap {
    fn drop(&mut self) {
        let (raw, mut is_alive) = (self.raw.as_ptr(), true);
        let mut destroy = || {
            is_alive = false;
            // SAFETY: calls on the interpreter have ended. Tensor::from_raw_parts() demands that work on GPUs has finished.
            unsafe { sys::fa2_block_map_destroy(raw) }
        };
        // The driver frees memory only if the thread has a current context.
        if let Some(place) = *self.place.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = on_device(place.device, &mut destroy);
        }
        if is_alive {
            // SAFETY: on_device() has not called destroy().
            unsafe { sys::fa2_block_map_destroy(raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_stream_of_the_first_one() {
        // SAFETY: no call of the library gets them.
        let [one, two] = [0x10, 0x20].map(|handle: usize| unsafe { Stream::from_raw(handle as *mut _) });
        let map = BlockMap::new(0).unwrap();
        let mut calls = 0;
        let mut lock = |device, stream| {
            map.lock(device, stream, || {
                calls += 1;
                sys::FA2_OK
            })
        };
        lock(0, one).unwrap();
        lock(0, one).unwrap();
        let error = lock(0, two).unwrap_err();
        let expected = "block_map = of device 0, stream 0x10, must be a map of device 0, stream 0x20, the call's";
        assert!(error.message().contains(expected), "{error}");
        assert!(lock(1, one).is_err());
        assert!(lock(sys::FA2_INTERPRETER_DEVICE, one).is_err());
        assert_eq!(calls, 2);

        let map = BlockMap::new(0).unwrap();
        for stream in [one, two] {
            map.lock(sys::FA2_INTERPRETER_DEVICE, stream, || sys::FA2_OK).unwrap();
        }
    }
}
