use std::{ffi::CString, marker::PhantomData};

use crate::{error::check, sys, Error, Problem, Tensor};

const MOST_DIMENSIONS: usize = 4;

/// Functions of scores in CUDA C++: the bodies of functions of a position `at`, which return. `docs/scores.md` says what they may
/// contain. An empty text is no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreTexts<'a> {
    /// returns a float, which is added to the score
    pub bias: &'a str,
    /// returns the new score, from `score` of the type `Score`
    pub modify: &'a str,
    /// returns d modify / d score, of the same `score` as a float; empty: gradients derive it from `modify`. [`Scores::check`]
    /// compares both.
    pub mod_slope: &'a str,
    /// returns a bool: whether the query sees the key
    pub mask: &'a str,
    /// blocks of queries and keys, counted from 0 in their sequence, in each of which the mask answers the same for all pairs of a
    /// head, for masks that are lists or tables of blocks; up to 2^20; [0, 0] or [1, 1]: none. The mask's map then takes one
    /// evaluation a row and block. If the mask differs inside a block, results are wrong: [`Scores::check`] compares pairs.
    pub mask_block: [i32; 2],
}

/// What texts call by a name: a tensor with an index per dimension, or a number.
#[derive(Clone, Copy, Debug)]
pub enum Capture<'a> {
    /// elements of `F16`, `Bf16`, `f32`, `i32`, `i64`, `u8` or `bool`, with at most 4 dimensions of at least 1 element
    Tensor(Tensor<'a>),
    /// a tensor of `F16`, `Bf16` or `f32` with an element per score, such as a bias: (batch or 1, heads_q or 1, seqlen_q, seqlen_k),
    /// which texts read as `pair(at)`. Kernels on wgmma fetch its tiles before they need them. Keys must be contiguous, and the
    /// address and the other strides multiples of 16 bytes; pass others as [`Capture::Tensor`].
    PerScore(Tensor<'a>),
    /// a float
    F32(f32),
    /// an int
    I32(i32),
    /// a long long, of at most 53 bits
    I64(i64),
    /// a bool
    Bool(bool),
}

/// Texts, and what they capture in a call. Its values, sizes and addresses are no part of a kernel: new ones compile nothing.
#[derive(Debug)]
pub struct Scores<'a> {
    number: i64,
    has_mask: bool,
    captures: Vec<sys::fa2_capture>,
    devices: Vec<(String, i32)>,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: it is like the tensors that it holds.
unsafe impl Send for Scores<'_> {}
unsafe impl Sync for Scores<'_> {}

impl ScoreTexts<'_> {
    /// Makes the texts known in this process, for good, with captures by name; there may be none. Compiles nothing.
    ///
    /// # Safety
    /// Texts are code, which runs on GPUs and, on the interpreter, in this process. They must compute from what `docs/scores.md`
    /// offers, without undefined behaviour; captures are safe to call with any index.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if all texts are empty, or a text, capture or block is refused.
    pub unsafe fn make<'a>(&self, captures: &[(&str, Capture<'a>)]) -> Result<Scores<'a>, Error> {
        let bias = c_string("bias", self.bias)?;
        let modify = c_string("modify", self.modify)?;
        let mod_slope = c_string("mod_slope", self.mod_slope)?;
        let mask = c_string("mask", self.mask)?;
        let names = captures.iter().map(|(name, _)| c_string("a capture", name)).collect::<Result<Vec<_>, _>>()?;
        let specs: Vec<_> = names.iter().zip(captures).map(|(name, (_, capture))| capture.spec(name)).collect();
        let text = |of: &CString| sys::fa2_score_text { text: of.as_ptr(), ..Default::default() };
        let (bias, modify, mod_slope, mask) = (text(&bias), text(&modify), text(&mod_slope), text(&mask));
        let texts = sys::fa2_score_texts {
            bias: &bias,
            r#mod: &modify,
            mod_slope: &mod_slope,
            mask: &mask,
            captures: specs.as_ptr(),
            capture_count: specs.len(),
            mask_block_queries: self.mask_block[0],
            mask_block_keys: self.mask_block[1],
            ..Default::default()
        };
        let mut number = 0;
        // SAFETY: the strings and structs live until the call returns.
        check(unsafe { sys::fa2_make_score_text(&texts, &mut number) })?;
        Ok(Scores {
            number,
            has_mask: !self.mask.is_empty(),
            captures: captures.iter().map(|(name, capture)| capture.raw(name)).collect::<Result<_, _>>()?,
            devices: captures
                .iter()
                .filter_map(|(name, capture)| Some((name.to_string(), capture.device()?)))
                .collect(),
            memory: PhantomData,
        })
    }
}

impl Capture<'_> {
    fn spec(&self, name: &CString) -> sys::fa2_capture_spec {
        let (dtype, dimensions) = match self {
            Self::Tensor(tensor) => (tensor.array().dtype, tensor.array().ndim),
            Self::PerScore(tensor) => (tensor.array().dtype, sys::FA2_CAPTURED_PER_SCORE),
            Self::F32(_) => (sys::FA2_FLOAT32, sys::FA2_CAPTURED_NUMBER),
            Self::I32(_) => (sys::FA2_INT32, sys::FA2_CAPTURED_NUMBER),
            Self::I64(_) => (sys::FA2_INT64, sys::FA2_CAPTURED_NUMBER),
            Self::Bool(_) => (sys::FA2_CAPTURED_BOOL, sys::FA2_CAPTURED_NUMBER),
        };
        sys::fa2_capture_spec { name: name.as_ptr(), dtype, dimensions }
    }

    /// Returns the capture of a call. The library has accepted its spec.
    fn raw(&self, name: &str) -> Result<sys::fa2_capture, Error> {
        let mut raw = sys::fa2_capture::default();
        match *self {
            Self::Tensor(tensor) | Self::PerScore(tensor) => {
                let array = tensor.array();
                raw.data = array.data;
                raw.sizes.copy_from_slice(&array.shape[..MOST_DIMENSIONS]);
                raw.strides.copy_from_slice(&array.strides[..MOST_DIMENSIONS]);
            }
            Self::F32(number) => raw.number = f64::from(number),
            Self::I32(number) => raw.number = f64::from(number),
            Self::I64(number) => {
                raw.number = number as f64;
                if raw.number as i128 != i128::from(number) {
                    return Err(Error::InvalidRequest(format!(
                        "captures.{name} = {number}, must have at most 53 bits"
                    )));
                }
            }
            Self::Bool(flag) => raw.number = f64::from(u8::from(flag)),
        }
        Ok(raw)
    }

    fn device(&self) -> Option<i32> {
        match self {
            Self::Tensor(tensor) | Self::PerScore(tensor) => Some(tensor.array().device),
            _ => None,
        }
    }
}

impl Scores<'_> {
    /// Returns the texts' number, for [`crate::Problem::score_text`]. It depends on the texts, and on names, types and dimensions
    /// of captures, alone.
    pub fn number(&self) -> i64 {
        self.number
    }

    pub(crate) fn has_mask(&self) -> bool {
        self.has_mask
    }

    pub(crate) fn captures(&self) -> (*const sys::fa2_capture, i64) {
        (self.captures.as_ptr(), self.captures.len() as i64)
    }

    /// Compiles the texts for the host, in double precision, and compares `mod_slope`, if there is one, with the derivative of
    /// `modify` at random scores and at positions of the problem, whose `score_text` is ignored, and the mask at random pairs of
    /// each `mask_block`. Needs no device, and a C++ compiler as the interpreter does. Captured tensors must lie in host memory.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with a score and its position if `mod_slope` differs by more than 1e-4, relative above 1, or the
    /// mask inside a block; [`Error::Compile`] if a text does not compile; [`Error::Unavailable`] without a compiler.
    pub fn check(&self, problem: &Problem) -> Result<(), Error> {
        self.require_on(sys::FA2_INTERPRETER_DEVICE)?;
        let mut raw = problem.raw();
        raw.score_text = self.number;
        let (captures, count) = self.captures();
        // SAFETY: the captures are tensors of the host, which live as long as self. make() has the caller's word for the texts.
        check(unsafe { sys::fa2_check_score_text(&raw, captures, count) })
    }

    /// Checks that every tensor lies on the device.
    pub(crate) fn require_on(&self, device: i32) -> Result<(), Error> {
        let wrong: Vec<_> = self
            .devices
            .iter()
            .filter(|(_, given)| *given != device)
            .map(|(name, given)| {
                format!("captures.{name}.device = {given}, must be {device}, that of the call's tensors")
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::InvalidRequest(wrong.join("\n")))
    }
}

fn c_string(name: &str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::InvalidRequest(format!("{name} has a NUL, must have none")))
}
