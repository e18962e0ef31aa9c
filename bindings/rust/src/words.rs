use crate::sys;

/// Element types of Q and O, and of K and V unless [`KvType`] names another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 binary16
    #[default]
    F16 = sys::FA2_F16 as isize,
    /// bfloat16
    Bf16 = sys::FA2_BF16 as isize,
}

/// Element types of K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// that of Q and O
    #[default]
    Same = sys::FA2_KV_SAME as isize,
    /// 8 bits: [`F8E4M3`](crate::F8E4M3)
    E4m3 = sys::FA2_KV_E4M3 as isize,
    /// that of Q and O, with the factors of 8-bit ones
    Scaled = sys::FA2_KV_SCALED as isize,
    /// DeepSeek-V3.2's rows of 656 bytes: 512 columns of e4m3, 4 float32 factors, 64 columns of bfloat16
    DsMla = sys::FA2_KV_DS_MLA as isize,
}

/// Which keys a query sees. Query i and key j count from the first row of their sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mask {
    /// all keys
    #[default]
    None = sys::FA2_MASK_NONE as isize,
    /// keys j <= i + seqlen_k - seqlen_q: the last query sees all keys, as in FlashAttention
    CausalBottomRight = sys::FA2_CAUSAL_BOTTOM_RIGHT as isize,
    /// keys j <= i
    CausalTopLeft = sys::FA2_CAUSAL_TOP_LEFT as isize,
}

/// The log-sum-exp of a query that sees no key; its output is 0 in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmptyRowLse {
    /// +infinity
    #[default]
    PositiveInfinity = sys::FA2_EMPTY_ROW_POSITIVE_INFINITY as isize,
    /// -infinity
    NegativeInfinity = sys::FA2_EMPTY_ROW_NEGATIVE_INFINITY as isize,
}

/// The base of the logarithm in LSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LseBase {
    /// log(sum of exp(S)), as in FlashAttention
    #[default]
    Natural = sys::FA2_LSE_NATURAL as isize,
    /// log2(sum of exp(S)), as in FlashInfer
    Two = sys::FA2_LSE_BASE_TWO as isize,
}

/// How gradients may differ between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Determinism {
    /// the last bits of dQ may differ
    #[default]
    Fastest = sys::FA2_FASTEST as isize,
    /// every run has the same bits, and those of a sequence do not depend on the rest of the batch
    Bitwise = sys::FA2_BITWISE as isize,
}

/// Which two columns are rotated together by angle i < rotary_dim / 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RotaryStyle {
    /// i and i + rotary_dim / 2 (GPT-NeoX)
    #[default]
    Halves = sys::FA2_ROTARY_HALVES as isize,
    /// 2 i and 2 i + 1 (GPT-J)
    Interleaved = sys::FA2_ROTARY_INTERLEAVED as isize,
}

/// The alignment of every row of Q, K, V and O, which a plan may assume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RowAlignment {
    /// addresses and strides are multiples of 16 bytes, and strides are positive: the fast kernels
    #[default]
    Bytes16 = sys::FA2_ROWS_16_BYTES as isize,
    /// addresses and strides are multiples of one element: every view
    Element = sys::FA2_ROWS_ELEMENT as isize,
    /// addresses and strides are multiples of 16 bytes; strides may be 0 or negative
    Bytes16AnyOrder = sys::FA2_ROWS_16_BYTES_ANY_ORDER as isize,
}

/// What a context does about tuning. `docs/environment.md` describes the modes of `FA2_TUNE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tune {
    /// as the environment variable FA2_TUNE says
    #[default]
    FromEnvironment = sys::FA2_TUNE_DEFAULT as isize,
    /// the heuristic alone
    Off = sys::FA2_TUNE_OFF as isize,
    /// tuning records, else the heuristic
    Stored = sys::FA2_TUNE_STORED as isize,
    /// like `Stored`; measures problems without a record for processes that start later
    Learn = sys::FA2_TUNE_LEARN as isize,
    /// like `Learn`, and uses each measurement at once
    Adaptive = sys::FA2_TUNE_ADAPTIVE as isize,
    /// calls wait for measurements
    Now = sys::FA2_TUNE_NOW as isize,
}

/// Whether a context compiles kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jit {
    /// as the environment variable FA2_JIT says
    #[default]
    FromEnvironment = sys::FA2_JIT_DEFAULT as isize,
    /// compile kernels that no cache holds, and on other cores those that are likely to be needed next
    On = sys::FA2_JIT_ON as isize,
    /// run a similar cached kernel, else fail
    Off = sys::FA2_JIT_OFF as isize,
    /// compile what a call needs, and nothing else
    Lazy = sys::FA2_JIT_LAZY as isize,
}

/// Which kernels [`precompile`](crate::Context::precompile) compiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrecompileScope {
    /// every kernel that problems with the same types, head dims, masks and variants can run with
    #[default]
    AnySize = sys::FA2_PRECOMPILE_ANY_SIZE as isize,
    /// the kernel that each problem itself runs with
    GivenSizes = sys::FA2_PRECOMPILE_GIVEN_SIZES as isize,
}
