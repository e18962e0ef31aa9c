//! The structs and enumerators that the C headers define by hand.

use super::*;

pub type fa2_status = i32;

constants! { HEADER_CONSTANTS:
    FA2_OK = 0,
    FA2_INVALID_REQUEST = 1,
    FA2_COMPILE = 2,
    FA2_CACHE = 3,
    FA2_CUDA = 4,
    FA2_UNAVAILABLE = 5,
    FA2_INTERNAL = 6,
    FA2_KERNEL_FAULT = 7,
    FA2_INTERRUPTED = 8,
    FA2_COMMUNICATION = 9,
    FA2_KV_SAME = 0,
    FA2_KV_E4M3 = 1,
    FA2_KV_SCALED = 2,
    FA2_KV_DS_MLA = 3,
    FA2_MASK_NONE = 0,
    FA2_CAUSAL_BOTTOM_RIGHT = 1,
    FA2_CAUSAL_TOP_LEFT = 2,
    FA2_ROWS_16_BYTES = 0,
    FA2_ROWS_ELEMENT = 1,
    FA2_ROWS_16_BYTES_ANY_ORDER = 2,
    FA2_EMPTY_ROW_POSITIVE_INFINITY = 0,
    FA2_EMPTY_ROW_NEGATIVE_INFINITY = 1,
    FA2_LSE_NATURAL = 0,
    FA2_LSE_BASE_TWO = 1,
    FA2_TUNE_DEFAULT = 0,
    FA2_TUNE_OFF = 1,
    FA2_TUNE_STORED = 2,
    FA2_TUNE_LEARN = 3,
    FA2_TUNE_ADAPTIVE = 4,
    FA2_TUNE_NOW = 5,
    FA2_JIT_DEFAULT = 0,
    FA2_JIT_ON = 1,
    FA2_JIT_OFF = 2,
    FA2_JIT_LAZY = 3,
    FA2_CURRENT_DEVICE = -1,
    FA2_INTERPRETER_DEVICE = -2,
    FA2_OTHER_DEVICE = -3,
    FA2_PRECOMPILE_ANY_SIZE = 0,
    FA2_PRECOMPILE_GIVEN_SIZES = 1,
    FA2_TUNE_LIKELY = 0,
    FA2_TUNE_ALL = 1,
    FA2_DQ = 1,
    FA2_DK = 2,
    FA2_DV = 4,
    FA2_D_SINKS = 8,
    FA2_D_CAPTURES = 16,
    FA2_ALL_GRADIENTS = 7,
    FA2_FASTEST = 0,
    FA2_BITWISE = 256,
    FA2_ROTARY_HALVES = 0,
    FA2_ROTARY_INTERLEAVED = 1,
    FA2_READ_ONLY = 1,
    FA2_CAPTURED_BOOL = 7,
    FA2_CAPTURED_NUMBER = -1,
    FA2_CAPTURED_PER_SCORE = -2,
    FA2_MOST_DIMENSIONS = 5,
    FA2_LOG_TRACE = 0,
    FA2_LOG_DEBUG = 1,
    FA2_LOG_INFO = 2,
    FA2_LOG_WARN = 3,
    FA2_LOG_ERROR = 4,
    FA2_LOG_CRITICAL = 5,
    FA2_LOG_OFF = 6,
    FA2_LAYOUT_CONTIGUOUS = 0,
    FA2_LAYOUT_ZIGZAG = 1,
    FA2_SCHEME_AUTOMATIC = 0,
    FA2_SCHEME_GATHER_HEADS = 1,
    FA2_SCHEME_LOCAL = 2,
    FA2_SCHEME_ALL_TO_ALL = 3,
    FA2_SCHEME_STAGED = 4,
}

/// An opaque type, which only pointers name.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(#[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _private: [u8; 0],
            _not_send: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        })*
    };
}
opaque! { fa2_context fa2_plan fa2_backward_plan fa2_block_map fa2_shard_layout fa2_communicator fa2_context_parallel_plan }
opaque! { fa2_context_parallel_decode_plan }

pub type fa2_progress = Option<unsafe extern "C" fn(*mut c_void, usize, usize)>;
pub type fa2_log_callback = Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>;
pub type fa2_allocate = Option<unsafe extern "C" fn(i32, *mut c_void, usize, usize, *mut *mut c_void) -> *mut c_void>;
pub type fa2_release = Option<unsafe extern "C" fn(*mut c_void)>;
/// The type of the first argument of `fa2_set_interrupt`, which has no name in C.
pub type fa2_poll = Option<unsafe extern "C" fn(*mut c_void) -> i32>;

pub type fa2_exchange =
    Option<unsafe extern "C" fn(*mut c_void, *const fa2_transfer, usize, *mut c_void, *mut u64) -> i32>;
pub type fa2_wait = Option<unsafe extern "C" fn(*mut c_void, u64) -> i32>;
pub type fa2_all_gather = Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> i32>;

c_struct! {
    pub struct fa2_tensor {
        pub data: *mut c_void = null_mut(),
        pub strides: [i64; 3] = [0; 3],
    }
}

c_struct! {
    pub struct fa2_array {
        pub data: *mut c_void = null_mut(),
        pub dtype: i32 = FA2_OTHER_DTYPE,
        pub device: i32 = FA2_OTHER_DEVICE,
        pub ndim: i32 = 0,
        pub flags: i32 = 0,
        pub shape: [i64; FA2_MOST_DIMENSIONS as usize] = [0; FA2_MOST_DIMENSIONS as usize],
        pub strides: [i64; FA2_MOST_DIMENSIONS as usize] = [0; FA2_MOST_DIMENSIONS as usize],
    }
}

c_struct! {
    pub struct fa2_placement {
        pub device: i32 = FA2_CURRENT_DEVICE,
        pub row_alignment: i32 = FA2_ROWS_16_BYTES,
    }
}

c_struct! {
    pub struct fa2_launch {
        pub struct_size: u32 = size_of::<fa2_launch>() as u32,
        pub keeps: i32 = 0,
        pub place: fa2_placement = fa2_placement::default(),
        pub stream: *mut c_void = null_mut(),
        pub allocate: fa2_allocate = None,
        pub release: fa2_release = None,
        pub block_map: *mut fa2_block_map = null_mut(),
    }
}

c_struct! {
    pub struct fa2_capture {
        pub data: *const c_void = null(),
        pub number: f64 = 0.0,
        pub sizes: [i64; 4] = [0; 4],
        pub strides: [i64; 4] = [0; 4],
    }
}

c_struct! {
    pub struct fa2_capture_spec {
        pub name: *const c_char = null(),
        pub dtype: i32 = FA2_FLOAT32,
        pub dimensions: i32 = FA2_CAPTURED_NUMBER,
    }
}

c_struct! {
    pub struct fa2_score_text {
        pub text: *const c_char = null(),
        pub file: *const c_char = null(),
        pub line: i32 = 1,
        pub reserved: i32 = 0,
    }
}

c_struct! {
    pub struct fa2_score_texts {
        pub struct_size: u32 = size_of::<fa2_score_texts>() as u32,
        pub reserved: i32 = 0,
        pub bias: *const fa2_score_text = null(),
        pub r#mod: *const fa2_score_text = null(),
        pub mod_slope: *const fa2_score_text = null(),
        pub mask: *const fa2_score_text = null(),
        pub captures: *const fa2_capture_spec = null(),
        pub capture_count: usize = 0,
        pub mask_block_queries: i32 = 0,
        pub mask_block_keys: i32 = 0,
    }
}

c_struct! {
    pub struct fa2_context_options {
        pub struct_size: u32 = size_of::<fa2_context_options>() as u32,
        pub tune: i32 = FA2_TUNE_DEFAULT,
        pub jit: i32 = FA2_JIT_DEFAULT,
        pub tune_budget_ms: i32 = 0,
        pub cache_dir: *const c_char = null(),
        pub read_only_caches: *const c_char = null(),
        pub config: *const c_char = null(),
    }
}

c_struct! {
    pub struct fa2_plan_options {
        pub struct_size: u32 = size_of::<fa2_plan_options>() as u32,
        pub row_alignment: i32 = FA2_ROWS_16_BYTES,
    }
}

c_struct! {
    pub struct fa2_precompile_options {
        pub struct_size: u32 = size_of::<fa2_precompile_options>() as u32,
        pub scope: i32 = FA2_PRECOMPILE_ANY_SIZE,
        pub jobs: i32 = 0,
        pub row_alignment: i32 = FA2_ROWS_16_BYTES,
        pub out: *const c_char = null(),
        pub backward: i32 = 0,
        pub reserved: i32 = 0,
        pub append: i32 = 0,
        pub merge: i32 = 0,
        pub progress: fa2_progress = None,
        pub progress_data: *mut c_void = null_mut(),
        pub requests: *const c_char = null(),
        pub shard: i32 = 0,
        pub shards: i32 = 0,
    }
}

c_struct! {
    pub struct fa2_tune_options {
        pub struct_size: u32 = size_of::<fa2_tune_options>() as u32,
        pub scope: i32 = FA2_TUNE_LIKELY,
        pub row_alignment: i32 = FA2_ROWS_16_BYTES,
        pub backward: i32 = 0,
    }
}

c_struct! {
    pub struct fa2_transfer {
        pub receives: i32 = 0,
        pub peer: i32 = 0,
        pub data: *mut c_void = null_mut(),
        pub bytes: usize = 0,
    }
}

c_struct! {
    pub struct fa2_communicator_functions {
        pub struct_size: u32 = size_of::<fa2_communicator_functions>() as u32,
        pub rank: i32 = 0,
        pub size: i32 = 0,
        pub peer_memory: i32 = 0,
        pub data: *mut c_void = null_mut(),
        pub exchange: fa2_exchange = None,
        pub wait: fa2_wait = None,
        pub all_gather: fa2_all_gather = None,
    }
}

c_struct! {
    pub struct fa2_nccl_id {
        pub bytes: [c_char; 128] = [0; 128],
    }
}

c_struct! {
    pub struct fa2_nccl_options {
        pub struct_size: u32 = size_of::<fa2_nccl_options>() as u32,
        pub max_blocks: i32 = 0,
        pub timeout_ms: i64 = 0,
        pub no_peer_memory: i32 = 0,
        pub reserved: i32 = 0,
    }
}

c_struct! {
    pub struct fa2_context_parallel_options {
        pub struct_size: u32 = size_of::<fa2_context_parallel_options>() as u32,
        pub scheme: i32 = FA2_SCHEME_AUTOMATIC,
        pub groups: i32 = 0,
        pub gradients: i32 = 0,
        pub row_alignment: i32 = FA2_ROWS_16_BYTES,
    }
}
