"""python -m fa2 doctor|info|precompile|bench"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import Error, __version__, _bench, attention, machine, precompile

_VARIANTS = ("window", "softcap", "alibi", "sinks", "dropout", "varlen", "batch-invariant", "backward", "append", "merge")


def _info() -> dict[str, Any]:
    found = machine()
    found["python"] = sys.version.split()[0]
    for name in ("torch", "numpy", "ml_dtypes", "transformers", "vllm", "sglang", "flash-attn"):
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


def _precompile(args: argparse.Namespace) -> list[dict[str, Any]]:
    head_dims = [int(number) for number in args.head_dim.split(",")]
    variants = {name: getattr(args, name) for name in (variant.replace("-", "_") for variant in _VARIANTS)}
    return precompile(
        args.arch.split(","),
        head_dims=head_dims,
        dtypes=args.dtype.split(","),
        page_size=args.page_size,
        out=args.out,
        jobs=args.jobs,
        progress=_show_progress if sys.stderr.isatty() else None,
        **variants,
    )


def _show_progress(done: int, total: int) -> None:
    print(f"\r{done} of {total} kernels", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    return _bench.measure(
        batch=args.batch,
        seqlen=args.seqlen,
        heads=args.heads,
        heads_kv=args.heads_kv or args.heads,
        head_dim=args.head_dim,
        causal=args.causal,
        backward=args.backward,
        rounds=args.rounds,
    )


def _table(rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as what is in them; numbers to the right."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    right = [all(isinstance(row[place], (int, float)) for row in rows[1:]) for place in range(len(widths))]
    lines = ([t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right)] for row in texts)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _print_machine(found: dict[str, Any]) -> None:
    rows: list[tuple[str, Any]] = []
    for name, value in found.items():
        if name == "gpus":
            rows += [(f"GPU {gpu['ordinal']}", f"{gpu['name']}, {gpu['arch']}, {gpu['sm_count']} SMs") for gpu in value]
        elif isinstance(value, dict):
            rows.append((name, value.get("error") or ", ".join(str(part) for part in value.values() if part)))
        elif name != "advice":
            rows.append((name.replace("_", "-"), value or "none"))
    print(_table(rows))
    for sentence in found.get("advice", ()):
        print(f"! {sentence}")


def _print_kernels(kernels: list[dict[str, Any]]) -> None:
    rows: list[Sequence[Any]] = [("key", "arch", "head dim", "registers", "bytes", "ms", "origin", "config")]
    for kernel in kernels:
        config = ",".join(f"{name}={value}" for name, value in kernel["config"].items())
        registers = kernel["resources"].get("registers")
        numbers = kernel["problem"]["head_dim"], registers, kernel["binary_bytes"], round(kernel["compile_ms"])
        rows.append((kernel["key"][:8], kernel["arch"], *numbers, kernel["origin"], config))
    total = sum(kernel["binary_bytes"] for kernel in kernels)
    print(_table(rows))
    print(f"{len(kernels)} kernels, {total / 1e6:.1f} MB")


def _print_times(times: list[dict[str, Any]]) -> None:
    print(_table([tuple(times[0]), *(tuple(row.values()) for row in times)]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fa2", description="Attention kernels, compiled for your GPU at run time.")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="info|doctor|precompile|bench")

    def verb(name: str, meaning: str, example: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(
            name,
            help=meaning,
            description=meaning[0].upper() + meaning[1:] + ".",
            epilog=f"example: python -m fa2 {example}",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        made.add_argument("--json", action="store_true", help="print JSON")
        return made

    verb("info", "what there is: versions, GPUs, NVRTC, caches", "info --json")
    verb("doctor", "what there is, what is wrong with it, and one small attention computed; exit code 1 if that fails", "doctor")

    ahead = verb(
        "precompile",
        "make the kernels of attention ahead, whatever sizes come; needs NVRTC and no GPU",
        "precompile --arch sm_90a --head-dim 64,128 --backward --out pack",
    )
    ahead.add_argument("--arch", required=True, help="sm_80,sm_90a ...")
    ahead.add_argument("--head-dim", required=True, help="64,128 ...")
    ahead.add_argument("--dtype", default="float16,bfloat16", help="one or both")
    for name in _VARIANTS:
        ahead.add_argument(f"--{name}", action="store_true", help=f"precompile()'s {name.replace('-', '_')}")
    ahead.add_argument("--page-size", type=int, default=0, help="rows of a page; 0: no pages")
    ahead.add_argument("--out", help="the directory to fill, for FA2_CACHE_PATH; the user's cache without it")
    ahead.add_argument("--jobs", type=int, default=0, help="compiling threads; 0: one a core")

    bench = verb(
        "bench",
        "time attention in bfloat16 beside PyTorch's scaled_dot_product_attention",
        "bench --batch 4 --seqlen 4096 --heads 16 --head-dim 128 --causal --backward",
    )
    sizes = {"batch": 1, "seqlen": 4096, "heads": 16, "heads-kv": 0, "head-dim": 128, "rounds": 9}
    meanings = {"heads-kv": "heads of keys and values; 0: as many as heads", "rounds": "of which medians are taken"}
    for name, default in sizes.items():
        bench.add_argument(f"--{name}", type=int, default=default, help=meanings.get(name, "the problem's"))
    bench.add_argument("--causal", action="store_true", help="with a causal mask")
    bench.add_argument("--backward", action="store_true", help="the gradients of q, k and v instead")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    run: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
        "info": (_info, _print_machine),
        "doctor": (_doctor, _print_machine),
        "precompile": (lambda: _precompile(args), _print_kernels),
        "bench": (lambda: _measure(args), _print_times),
    }
    compute, show = run[args.verb]
    try:
        result = compute()
    except Error as error:
        print(f"fa2: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 1 if args.verb == "doctor" and not result["self_test"].startswith("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
