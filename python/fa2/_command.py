"""The results of the command's verbs, and their texts for people."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import Error, InvalidRequest, _problem_options, _text, attention, machine
from . import explain as explain_attention
from . import tune as tune_attention
from ._machine import cache_files, prune_cache
from ._machine import precompile as precompile_kernels

_NVRTC = "pip install 'nvidia-cuda-nvrtc==13.*', or nvidia-cuda-nvrtc-cu12 for a driver of CUDA 12"


def info(args: argparse.Namespace) -> dict[str, Any]:
    found = machine()
    found["python"] = sys.version.split()[0]
    for name in ("torch", "numpy", "ml_dtypes", "transformers", "vllm", "sglang", "flash-attn"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _self_test() -> str:
    """Computes one small attention, on the GPU if PyTorch has one, and compares it with the exact result."""
    try:
        import torch
    except ImportError:
        import numpy

        ones = numpy.ones((1, 16, 1, 64), numpy.float16)
        return "ok, on the interpreter" if (attention(ones, ones, ones) == 1).all() else "wrong result"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tensor = torch.ones(1, 16, 1, 64, dtype=torch.float16, device=device)
    return f"ok, on {device}" if bool((attention(tensor, tensor, tensor) == 1).all()) else "wrong result"


def doctor(args: argparse.Namespace) -> dict[str, Any]:
    found = info(args)
    advice = []
    if not found["driver"]:
        advice.append("There is no NVIDIA driver (libcuda.so.1): attention runs on the interpreter, slowly.")
    elif not found["gpus"]:
        advice.append("The driver shows no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES.")
    if "error" in found["nvrtc"]:
        advice.append(f"NVRTC is missing: {_NVRTC}.")
    elif found["driver"] and int(found["nvrtc"]["version"].split(".")[0]) > int(found["driver"].split(".")[0]):
        advice.append("NVRTC is newer than the driver, which may not load its code: pip install nvidia-cuda-nvrtc-cu12.")
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


def machine_text(found: dict[str, Any]) -> str:
    rows: list[tuple[str, str]] = []
    for name, value in found.items():
        if name == "gpus":
            rows += [(f"GPU {gpu['ordinal']}", f"{gpu['name']}, {gpu['arch']}, {gpu['sm_count']} SMs") for gpu in value]
        elif isinstance(value, dict):
            rows.append((name, value.get("error") or ", ".join(str(part) for part in value.values() if part)))
        elif name != "advice":
            rows.append((name.replace("_", "-"), value or "none"))
    return "\n".join((_text.facts(rows), *(_text.facts([("!", sentence)]) for sentence in found.get("advice", ()))))


def _show_progress(done: int, total: int) -> None:
    """Prints one line that changes on a terminal; elsewhere a line for each tenth."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} kernels", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == 1 or done * 10 // total > (done - 1) * 10 // total:
        print(f"{done} of {total} kernels", file=sys.stderr, flush=True)


def precompile(archs: list[str], **options: Any) -> list[dict[str, Any]]:
    return precompile_kernels(archs, progress=_show_progress, **options)


def kernels_text(kernels: list[dict[str, Any]]) -> str:
    rows: list[Sequence[Any]] = [("key", "arch", "dtype", "head dim", "registers", "bytes", "ms", "origin")]
    for kernel in kernels:
        problem, registers = kernel["problem"], kernel["resources"].get("registers")
        numbers = registers, kernel["binary_bytes"], round(kernel["compile_ms"])
        rows.append((kernel["key"][:8], kernel["arch"], problem["dtype"], problem["head_dim"], *numbers, kernel["origin"]))
    total = sum(kernel["binary_bytes"] for kernel in kernels)
    return f"{_text.table(rows)}\n{len(kernels)} kernels, {total / 1e6:.1f} MB"


def times_text(times: list[dict[str, Any]]) -> str:
    return _text.table([tuple(times[0]), *(tuple(row.values()) for row in times)])


def explain(args: argparse.Namespace) -> Any:
    tensors, options = _problem_options.operands(args)
    return explain_attention(*tensors, backward=args.backward, **options)


def tune(args: argparse.Namespace) -> Any:
    if args.budget_ms is not None:
        os.environ["FA2_TUNE_BUDGET_MS"] = str(args.budget_ms)  # read when the first call makes fa2's context
    tensors, options = _problem_options.operands(args)
    return tune_attention(*tensors, backward=args.backward, every=args.all, **options)


def tuning_text(reports: Any) -> str:
    texts = []
    for report in reports if isinstance(reports, list) else [reports]:
        rows: list[Sequence[Any]] = [("us", "samples", "config")]
        for candidate in report["candidates"]:
            config = " ".join(f"{name}={value}" for name, value in candidate["config"].items())
            dropped = f", dropped: {candidate['dropped'][:60]}" if candidate["dropped"] else ""
            rows.append((round(candidate["median_us"], 1), candidate["samples"], config + dropped))
        best = " ".join(f"{name}={value}" for name, value in report["best"].items())
        summary = [
            ("bucket", report["bucket"]),
            ("best", best),
            ("time", f"{report['best_us']:.1f} us; the heuristic's config {report['heuristic_us']:.1f} us"),
            ("search", f"{report['seconds']:.1f} s"),
        ]
        texts.append(f"{_text.table(rows)}\n\n{_text.facts(summary)}")
    return "\n\n".join(texts)


def cache(args: argparse.Namespace) -> dict[str, Any]:
    if args.action == "prune":
        return prune_cache(args.dir, max_mb=args.max_mb)
    if args.max_mb is not None:
        raise InvalidRequest("--max-mb belongs to prune: leave it out")
    return cache_files(args.dir, verify=args.action == "verify")


def cache_text(found: dict[str, Any]) -> str:
    place = found["directory"]
    if "removed_files" in found:
        removed = f"removed {found['removed_files']} files, {found['removed_bytes'] / 1e6:.1f} MB"
        return f"{removed}\n" + _text.wrapped(f"{place}: {found['entries']} kernels, {found['bytes'] / 1e6:.1f} MB")
    rows: list[Sequence[Any]] = [("key", "arch", "bytes", "last used", "kernel")]
    for entry in found["entries"]:
        key = os.path.basename(entry["path"])[:8]
        said = entry["damage"] or entry["spec"].replace(",", ", ") + (f", refused: {entry['refused']}" if entry["refused"] else "")
        rows.append((key, entry["arch"], entry["file_bytes"], entry["last_used"], said))
    summary = _text.wrapped(f"{place}: {len(rows) - 1} kernels, {found['bytes'] / 1e6:.1f} MB, {found['damaged']} damaged")
    return f"{_text.table(rows)}\n{summary}" if len(rows) > 1 else summary


def exit_code(args: argparse.Namespace, result: Any) -> int:
    if args.verb == "doctor":
        return 0 if result["self_test"].startswith("ok") else 1
    return int(args.verb == "cache" and args.action == "verify" and result["damaged"] > 0)
