"""python -m fa2 doctor|info|precompile|bench"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from . import Error, __version__, _core, attention, machine, precompile

_EXAMPLES = """examples:
  python -m fa2 doctor
  python -m fa2 precompile --arch sm_90a --head-dim 64,128 --backward --out pack
  python -m fa2 bench --batch 4 --seqlen 4096 --heads 16 --head-dim 128 --causal --json"""


def _info() -> dict[str, Any]:
    found = machine()
    found["python"] = sys.version.split()[0]
    for name in ("torch", "numpy", "ml_dtypes", "transformers", "flash-attn"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _self_test() -> str:
    """One small attention, on the GPU if PyTorch has one, beside what it must be."""
    try:
        import torch
    except ImportError:
        import numpy

        ones = numpy.ones((1, 16, 1, 64), numpy.float16)
        return "ok, on the interpreter" if (attention(ones, ones, ones) == 1).all() else "wrong result"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tensor = torch.ones(1, 16, 1, 64, dtype=torch.float16, device=device)
    return f"ok, on {device}" if bool((attention(tensor, tensor, tensor) == 1).all()) else "wrong result"


def _doctor() -> dict[str, Any]:
    found = _info()
    advice = []
    if not found["driver"]:
        advice.append("There is no NVIDIA driver (libcuda.so.1): attention runs on the interpreter, slowly.")
    elif not found["gpus"]:
        advice.append("The driver shows no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES.")
    if "error" in found["nvrtc"]:
        advice.append("NVRTC is missing: pip install fa2[cu13], or fa2[cu12] for a driver of CUDA 12.")
    elif found["driver"] and int(found["nvrtc"]["version"].split(".")[0]) > int(found["driver"].split(".")[0]):
        advice.append("NVRTC is newer than the driver, which may not load its code: pip install fa2[cu12].")
    if "error" in found["cache"]:
        advice.append(found["cache"]["error"])
    try:
        found["self_test"] = _self_test()
    except (Error, ImportError) as error:
        found["self_test"] = f"failed: {error}"
    if not found["self_test"].startswith("ok"):
        advice.append("The self-test did not succeed; the message above says why.")
    found["advice"] = advice
    return found


def _bench(args: argparse.Namespace) -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        raise _core.Unavailable("bench needs a GPU that PyTorch sees")
    shape = (args.batch, args.seqlen, args.heads, args.head_dim)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    for _ in range(3):
        attention(q, k, v, causal=args.causal)
    samples = []
    for _ in range(args.repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        attention(q, k, v, causal=args.causal)
        torch.cuda.synchronize()
        samples.append(1e6 * (time.perf_counter() - begin))
    median = statistics.median(samples)
    flops = 4 * args.batch * args.heads * args.seqlen**2 * args.head_dim / (2 if args.causal else 1)
    return {"median_us": round(median, 1), "tflops": round(flops / median * 1e-6, 1), "samples": args.repeats}


def _precompile(args: argparse.Namespace) -> Any:
    head_dims = [int(number) for number in args.head_dim.split(",")]
    archs = args.arch.split(",")
    return precompile(
        archs, head_dims=head_dims, dtypes=args.dtype.split(","), backward=args.backward, out=args.out, jobs=args.jobs
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fa2", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, meaning in (("info", "what there is"), ("doctor", "what there is, what is wrong, and one self-test")):
        verbs.add_parser(name, help=meaning)
    ahead = verbs.add_parser("precompile", help="make kernels ahead; needs NVRTC and no GPU")
    ahead.add_argument("--arch", required=True, help="sm_80,sm_90a ...")
    ahead.add_argument("--head-dim", required=True, help="64,128 ...")
    ahead.add_argument("--dtype", default="float16,bfloat16")
    ahead.add_argument("--backward", action="store_true")
    ahead.add_argument("--out", help="the directory to fill; the user's cache without it")
    ahead.add_argument("--jobs", type=int, default=0)
    bench = verbs.add_parser("bench", help="time one attention, launch and synchronisation included")
    for option, default in (("batch", 1), ("seqlen", 4096), ("heads", 16), ("head-dim", 128), ("repeats", 50)):
        bench.add_argument(f"--{option}", type=int, default=default)
    bench.add_argument("--causal", action="store_true")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    run: dict[str, Callable[[], Any]] = {
        "info": _info,
        "doctor": _doctor,
        "precompile": lambda: _precompile(args),
        "bench": lambda: _bench(args),
    }
    try:
        result = run[args.verb]()
    except Error as error:
        print(f"fa2: {error}", file=sys.stderr)
        return 1
    if args.json or not isinstance(result, dict):
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
    return 1 if args.verb == "doctor" and not result["self_test"].startswith("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
