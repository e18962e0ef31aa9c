use std::{ffi::CString, ptr::null};

use crate::{error::check, sys, Error};

/// Functions of scores in CUDA C++: the bodies of functions of a position `at`, which return. `docs/scores.md` says what they may
/// contain. An empty text is no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreTexts<'a> {
    /// returns a float, which is added to the score
    pub bias: &'a str,
    /// returns the new score, from `score` of the type `Score`
    pub modify: &'a str,
    /// returns a bool: whether the query sees the key
    pub mask: &'a str,
}

impl ScoreTexts<'_> {
    /// Makes the texts known in this process, for good, and returns their number for [`crate::Problem::score_text`], which
    /// depends on the texts alone. Compiles nothing.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if all texts are empty, or one is refused.
    pub fn make(&self) -> Result<i64, Error> {
        let owned = [("bias", self.bias), ("modify", self.modify), ("mask", self.mask)].map(|(name, text)| {
            CString::new(text).map_err(|_| Error::InvalidRequest(format!("{name} has a NUL, must have none")))
        });
        let [bias, modify, mask] = owned;
        let (bias, modify, mask) = (bias?, modify?, mask?);
        let text = |of: &CString| sys::fa2_score_text { text: of.as_ptr(), ..Default::default() };
        let mut number = 0;
        // SAFETY: the strings and structs live until the call returns.
        check(unsafe { sys::fa2_make_score_text(&text(&bias), &text(&modify), &text(&mask), null(), 0, &mut number) })?;
        Ok(number)
    }
}
