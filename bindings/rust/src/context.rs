use std::{
    env,
    ffi::{CString, OsStr},
    os::raw::c_char,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr::{null, null_mut, NonNull},
};

use crate::{
    calls::{locked, Bound},
    error::{check, take_string},
    sys, Attention, Device, Error, Jit, PrecompileScope, Problem, RowAlignment, Tune,
};

/// Settings of a context. A default field comes from its environment variable, then from that variable's default.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    /// FA2_TUNE
    pub tune: Tune,
    /// FA2_JIT
    pub jit: Jit,
    /// FA2_TUNE_BUDGET_MS: the longest search of `Tune::Now`; milliseconds; up to an hour
    pub tune_budget_ms: i32,
    /// FA2_CACHE_DIR: where compiled kernels are stored
    pub cache_dir: Option<PathBuf>,
    /// FA2_CACHE_PATH: read-only caches, searched first
    pub read_only_caches: Vec<PathBuf>,
    /// FA2_CONFIG: "tile_m=128,tile_n=64,...", pins the kernels of its pass
    pub config: Option<String>,
}

/// What [`Context::precompile`] compiles, and where it stores the kernels.
#[derive(Clone, Debug, Default)]
pub struct PrecompileOptions {
    /// which kernels
    pub scope: PrecompileScope,
    /// compiling threads; 0: one per core
    pub jobs: i32,
    /// the alignment of the plans that need the kernels
    pub row_alignment: RowAlignment,
    /// the cache directory to fill, or the pack to write (`.fa2pack`); none: the context's own directory
    pub out: Option<PathBuf>,
    /// whether to add each problem's backward, which must exist, for any gradients
    pub backward: bool,
    /// whether to add the kernel of `Append` to caches of the problem's K and V
    pub append: bool,
    /// whether to add the kernel of `Merge` of partial outputs like the problem's O
    pub merge: bool,
    /// a file that FA2_LOG_REQUESTS has written: adds its kernels, without archs for the GPU of each request
    pub requests: Option<PathBuf>,
    /// makes every `shards`-th kernel, from this one on; 0 to shards - 1
    pub shard: i32,
    /// machines that share the work; 0: 1
    pub shards: i32,
}

/// Owns kernel caches, tuning records and plans. The default is the process's context, which the first use makes from the
/// environment, and which lives as long as the process.
#[derive(Debug)]
pub struct Context(*mut sys::fa2_context);

// SAFETY: include/fa2/c_api.h calls contexts thread-safe.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Default for Context {
    fn default() -> Self {
        Self(null_mut())
    }
}

impl Context {
    /// Makes a context of its own.
    pub fn new(options: &ContextOptions) -> Result<Self, Error> {
        let caches = env::join_paths(&options.read_only_caches).map_err(|_| {
            let given = &options.read_only_caches;
            Error::InvalidRequest(format!("read_only_caches = {given:?}, must be paths without ':'"))
        })?;
        let cache_dir = c_string("cache_dir", options.cache_dir.as_ref())?;
        let caches = c_string("read_only_caches", Some(caches).filter(|paths| !paths.is_empty()))?;
        let config = c_string("config", options.config.as_ref())?;
        let raw = sys::fa2_context_options {
            tune: options.tune as i32,
            jit: options.jit as i32,
            tune_budget_ms: options.tune_budget_ms,
            cache_dir: pointer(&cache_dir),
            read_only_caches: pointer(&caches),
            config: pointer(&config),
            ..Default::default()
        };
        let mut context = null_mut();
        // SAFETY: the strings live until the call has returned.
        check(unsafe { sys::fa2_context_create(&raw, &mut context) })?;
        Ok(Self(context))
    }

    /// Prepares a problem for a device: chooses, compiles and loads its kernels. May take seconds.
    pub fn plan(&self, problem: &Problem, device: Device, row_alignment: RowAlignment) -> Result<Plan, Error> {
        self.make_plan(problem.raw(), device.raw(), row_alignment as i32)
    }

    /// Prepares the problem of a call, with the device and the alignment of its tensors. Computes nothing.
    pub fn plan_for(&self, call: &Attention<'_>) -> Result<Plan, Error> {
        let bound = call.bind()?;
        self.make_plan(bound.problem, bound.place.device, bound.place.row_alignment)
    }

    fn make_plan(&self, problem: sys::fa2_problem, device: i32, row_alignment: i32) -> Result<Plan, Error> {
        let options = sys::fa2_plan_options { row_alignment, ..Default::default() };
        let mut plan = null_mut();
        // SAFETY: the context is null, for the default one, or exists as long as `self`.
        check(unsafe { sys::fa2_plan_create(self.0, &problem, device, &options, &mut plan) })?;
        let raw = NonNull::new(plan).expect("fa2_plan_create() sets the plan if it returns FA2_OK");
        Ok(Plan { raw, problem: normalized(problem), device })
    }

    /// Compiles the kernels of `problems` for GPUs of each architecture ("sm_80", "sm_90a", ...). Needs NVRTC, but neither a
    /// GPU nor a driver. Returns a JSON array with one object per kernel.
    pub fn precompile(
        &self,
        problems: &[Problem],
        archs: &[&str],
        options: &PrecompileOptions,
    ) -> Result<String, Error> {
        let problems: Vec<_> = problems.iter().map(Problem::raw).collect();
        let archs = archs.iter().map(|arch| c_string("arch", Some(arch))).collect::<Result<Vec<_>, _>>()?;
        let archs: Vec<_> = archs.iter().map(pointer).collect();
        let out = c_string("out", options.out.as_ref())?;
        let requests = c_string("requests", options.requests.as_ref())?;
        let raw = sys::fa2_precompile_options {
            scope: options.scope as i32,
            jobs: options.jobs,
            row_alignment: options.row_alignment as i32,
            out: pointer(&out),
            backward: i32::from(options.backward),
            append: i32::from(options.append),
            merge: i32::from(options.merge),
            requests: pointer(&requests),
            shard: options.shard,
            shards: options.shards,
            ..Default::default()
        };
        let mut report = null_mut();
        // SAFETY: arrays have the lengths given, and strings live until the call has returned. A report is a string of fa2.
        let (status, report) = unsafe {
            let status = sys::fa2_precompile(
                self.0,
                problems.as_ptr(),
                problems.len(),
                archs.as_ptr(),
                archs.len(),
                &raw,
                &mut report,
            );
            (status, take_string(report))
        };
        check(status).map(|()| report)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the context any more. Tensor::from_raw_parts() demands that its work has finished.
        unsafe { sys::fa2_context_destroy(self.0) };
    }
}

/// Adds a kernel pack (`fa2 precompile --out kernels.fa2pack`) that lies in the program, for example by `include_bytes!`. Contexts
/// made from now on search it before FA2_CACHE_PATH, and use its tuning records; the first call makes the default context.
/// `name` stands for the pack in messages.
///
/// # Safety
/// `bytes` must be a pack that fa2 made: its kernels are code, which runs on GPUs and, on the interpreter, in this process.
pub unsafe fn add_pack(name: &str, bytes: &'static [u8]) -> Result<(), Error> {
    let name = c_string("name", Some(name))?;
    // SAFETY: the bytes exist, unchanged, until the process ends.
    check(unsafe { sys::fa2_pack_add(pointer(&name), bytes.as_ptr().cast(), bytes.len()) })
}

/// An attention problem prepared for one device. Any thread may run it, at the same time as others.
#[derive(Debug)]
pub struct Plan {
    raw: NonNull<sys::fa2_plan>,
    problem: sys::fa2_problem,
    device: i32,
}

// SAFETY: include/fa2/c_api.h: plans are immutable, and any thread may use them.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    /// Computes a call, whose problem must be the plan's. On a GPU it enqueues the work and returns.
    pub fn run(&self, call: &mut Attention<'_>) -> Result<(), Error> {
        let bound = call.bind()?;
        self.require_same(&bound)?;
        // SAFETY: the tensors have the plan's sizes, and lie on its device; calls.rs says why this is enough.
        locked(call.block_map, bound.place.device, call.stream, || unsafe {
            sys::fa2_plan_run(self.raw.as_ptr(), &bound.args, call.stream.raw())
        })
    }

    /// Returns a JSON object: what runs, and why. Its "kernels" say where each one came from.
    pub fn explain(&self) -> Result<String, Error> {
        let mut json = null_mut();
        // SAFETY: the plan exists as long as `self`, and `json` is a string of fa2.
        unsafe {
            check(sys::fa2_plan_explain(self.raw.as_ptr(), &mut json))?;
            Ok(take_string(json))
        }
    }

    fn require_same(&self, bound: &Bound) -> Result<(), Error> {
        let problem = normalized(bound.problem);
        if problem == self.problem && bound.place.device == self.device {
            return Ok(());
        }
        let (given, planned) = (problem.fields(), self.problem.fields());
        let mut wrong: Vec<_> = given
            .iter()
            .zip(&planned)
            .filter(|(a, b)| a != b)
            .map(|((name, value), (_, expected))| format!("{name} = {value}, must be {expected}, as in the plan"))
            .collect();
        if bound.place.device != self.device {
            let (given, expected) = (bound.place.device, self.device);
            wrong.push(format!("device = {given}, must be {expected}, as in the plan"));
        }
        Err(Error::InvalidRequest(wrong.join("\n")))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the plan any more. Tensor::from_raw_parts() demands that its work has finished.
        unsafe { sys::fa2_plan_destroy(self.raw.as_ptr()) };
    }
}

/// Returns the problem with defaults filled in, and without windows and chunks that hide nothing, as bound problems are.
fn normalized(mut problem: sys::fa2_problem) -> sys::fa2_problem {
    let p = &mut problem;
    if p.head_dim_v == 0 {
        p.head_dim_v = p.head_dim;
    }
    if p.heads_kv == 0 {
        p.heads_kv = p.heads_q;
    }
    let longest = p.seqlen_q.max(p.seqlen_k);
    if p.window_left >= longest {
        (p.has_window_left, p.window_left) = (0, 0);
    }
    if p.window_right >= longest {
        (p.has_window_right, p.window_right) = (0, 0);
    }
    if p.attention_chunk >= longest && p.mask != sys::FA2_MASK_NONE {
        (p.has_attention_chunk, p.attention_chunk) = (0, 0);
    }
    problem
}

fn c_string(name: &str, text: Option<impl AsRef<OsStr>>) -> Result<Option<CString>, Error> {
    let made = text.map(|text| {
        let text = text.as_ref();
        CString::new(text.as_bytes())
            .map_err(|_| Error::InvalidRequest(format!("{name} = {text:?}, must be text without NUL")))
    });
    made.transpose()
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(null(), |text| text.as_ptr())
}
