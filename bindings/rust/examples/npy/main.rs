//! Attention over .npy files, on the GPU if there is one, else on the interpreter. `--help` says how to call it.

#![deny(unsafe_op_in_unsafe_fn)]

mod file;
mod gpu;

use std::{env, path::PathBuf, process::ExitCode};

use fa2::{contiguous_strides, Attention, Context, Mask, Tensor, TensorMut, F16};
use file::Array;
use gpu::Gpu;

// The kernel pack that FA2_PACK named when the example was built.
include!(concat!(env!("OUT_DIR"), "/pack.rs"));

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
Computes attention over float16 arrays (batch, seqlen, heads, head_dim) in C order
Usage: npy --q FILE --k FILE --v FILE --out FILE [--causal] [--interpreter]

  --q, --k, --v FILE  inputs; K and V may have fewer heads than Q
  --out FILE          the output, like Q with V's head_dim
  --causal            the last query sees every key, each other query one key fewer
  --interpreter       runs on the CPU even if there is a GPU
  --help              prints this text

Example, in bindings/rust:
  cargo run --example npy -- --q ../../samples/q.npy --k ../../samples/k.npy --v ../../samples/v.npy --out o.npy
With FA2_PACK=kernels.fa2pack at build time, kernels come from this pack, which is part of the program:
  fa2 precompile --arch h100 --head-dim 32 --out kernels.fa2pack
";

#[derive(Default)]
struct Options {
    q: PathBuf,
    k: PathBuf,
    v: PathBuf,
    out: PathBuf,
    causal: bool,
    interpreter: bool,
}

/// Returns none if help was asked for.
fn options() -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut words = env::args_os().skip(1);
    while let Some(word) = words.next() {
        let file = match word.to_str() {
            Some("--help" | "-h") => return Ok(None),
            Some("--causal") => {
                options.causal = true;
                continue;
            }
            Some("--interpreter") => {
                options.interpreter = true;
                continue;
            }
            Some("--q") => &mut options.q,
            Some("--k") => &mut options.k,
            Some("--v") => &mut options.v,
            Some("--out") => &mut options.out,
            _ => return Err(format!("option = {word:?}, must be one that --help lists").into()),
        };
        *file = words.next().ok_or_else(|| format!("{word:?} = none, must be a file"))?.into();
    }
    for (name, file) in [("q", &options.q), ("k", &options.k), ("v", &options.v), ("out", &options.out)] {
        if file.as_os_str().is_empty() {
            return Err(format!("--{name} = none, must be a file: see --help").into());
        }
    }
    Ok(Some(options))
}

/// Runs a call without waiting for it, and returns what the library says of its kernels.
fn run(mut call: Attention, causal: bool) -> Result<String> {
    if causal {
        call.mask = Mask::CausalBottomRight;
    }
    let plan = Context::default().plan_for(&call)?;
    plan.run(&mut call)?;
    Ok(plan.explain()?)
}

fn on_interpreter([q, k, v]: [&Array; 3], out: &mut Array, causal: bool) -> Result<String> {
    let [q, k, v] = [q, k, v].map(|array| Tensor::new(&array.values, &array.shape));
    run(Attention::new(q?, k?, v?, TensorMut::new(&mut out.values, &out.shape)?), causal)
}

fn on_gpu(gpu: &Gpu, inputs: [&Array; 3], out: &mut Array, causal: bool) -> Result<String> {
    let [q, k, v] = inputs.map(|array| gpu.upload(&array.values));
    let (buffers, mut result) = ([q?, k?, v?], gpu.upload(&out.values)?);
    let shapes = inputs.map(|array| &array.shape[..]);
    // SAFETY: each buffer holds its array, contiguous, on GPU 0. download() waits for the default stream before the buffers
    // are freed. The default context, which keeps the plan, lives as long as the process.
    let call = unsafe {
        let view = |i: usize| Tensor::from_raw_parts(buffers[i].as_ptr(), 0, shapes[i], &contiguous_strides(shapes[i]));
        let out = TensorMut::from_raw_parts(result.as_mut_ptr(), 0, &out.shape, &contiguous_strides(&out.shape));
        Attention::new(view(0)?, view(1)?, view(2)?, out?)
    };
    let explanation = run(call, causal)?;
    result.download(&mut out.values)?;
    Ok(explanation)
}

/// Returns zeros in the shape of the output. The library checks the shapes; here they must only be small enough.
fn output_of(q: &Array, v: &Array) -> Result<Array> {
    match (&q.shape[..], &v.shape[..]) {
        (&[batch, seqlen, heads, 1..=256], &[_, _, _, dim @ 1..=256]) => {
            let shape = vec![batch, seqlen, heads, dim];
            Ok(Array { values: vec![F16(0); shape.iter().product()], shape })
        }
        (q, v) => {
            let rule = "must be (batch, seqlen, heads, head_dim), with head_dim at most 256";
            Err(format!("q.shape = {q:?}, v.shape = {v:?}, {rule}").into())
        }
    }
}

/// Returns the first text that the JSON document has under this name.
fn text_of<'a>(json: &'a str, name: &str) -> &'a str {
    let start = format!("\"{name}\": \"");
    json.split(&start).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("")
}

fn compute() -> Result<()> {
    let options = match options()? {
        Some(options) => options,
        None => {
            print!("{HELP}");
            return Ok(());
        }
    };
    let [q, k, v] = [&options.q, &options.k, &options.v].map(|path| file::read(path));
    let (q, k, v) = (q?, k?, v?);
    let mut out = output_of(&q, &v)?;
    if let Some(pack) = PACK {
        // SAFETY: whoever built the example chose a pack of `fa2 precompile`.
        unsafe { fa2::add_pack("pack of the example", pack)? };
    }
    let gpu = if options.interpreter { None } else { Gpu::open() };
    let explanation = match &gpu {
        Some(gpu) => on_gpu(gpu, [&q, &k, &v], &mut out, options.causal)?,
        None => on_interpreter([&q, &k, &v], &mut out, options.causal)?,
    };
    file::write(&options.out, &out)?;
    let [device, kernel, origin, path] = ["device", "kernel", "origin", "path"].map(|name| text_of(&explanation, name));
    println!("device  {device}\nkernel  {kernel}, {origin} {path}\noutput  {} {:?}", options.out.display(), out.shape);
    Ok(())
}

fn main() -> ExitCode {
    match compute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
