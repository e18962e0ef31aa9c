//! The C interface as it is: structs, enumerators and functions of `include/fa2/c_*.h`, whose comments describe them.
//!
//! `tests/c_headers.rs` compares all of them with the headers.
#![allow(missing_docs, non_camel_case_types)]

use std::{
    ffi::c_void,
    mem::size_of,
    os::raw::c_char,
    ptr::{null, null_mut},
};

/// Defines a C struct with its initial values, and lists its fields with their offsets.
macro_rules! c_struct {
    ($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $type:ty = $initial:expr,)*
    }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self { Self { $($field: $initial,)* } }
        }

        impl $name {
            /// Returns the name in C, the type as text and the offset in bytes of each field.
            pub fn layout() -> Vec<(&'static str, &'static str, usize)> {
                let made = Self::default();
                let base = std::ptr::addr_of!(made) as usize;
                vec![$((
                    stringify!($field).trim_start_matches("r#"),
                    stringify!($type),
                    std::ptr::addr_of!(made.$field) as usize - base,
                ),)*]
            }

            /// Returns the name and the value of each field.
            pub fn fields(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($field), format!("{:?}", self.$field)),)*]
            }
        }
    };
}

/// Defines enumerators, and lists them.
macro_rules! constants {
    ($list:ident: $($name:ident = $value:expr,)*) => {
        $(pub const $name: i32 = $value;)*

        /// The enumerators of this list and their values.
        pub const $list: &[(&str, i32)] = &[$((stringify!($name), $value),)*];
    };
}

#[rustfmt::skip]
mod call;
#[rustfmt::skip]
mod call_constants;
mod functions;
mod options;

pub use call::*;
pub use call_constants::*;
pub use functions::*;
pub use options::*;
