"""Times attention and PyTorch's scaled_dot_product_attention in turns."""

from __future__ import annotations

import functools
import itertools
import random
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from . import _core
from ._attention import attention


def _milliseconds(call: Callable[[], Any], count: int) -> float:
    """Returns the GPU time of one call, the mean of `count` calls in a row."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call, unused-ignore]
    begin.record()  # type: ignore[no-untyped-call, unused-ignore]
    for _ in range(count):
        call()
    end.record()  # type: ignore[no-untyped-call, unused-ignore]
    end.synchronize()  # type: ignore[no-untyped-call, unused-ignore]
    return float(begin.elapsed_time(end)) / count


def measure(
    *,
    dtype: str,
    batch: int,
    seqlen: int,
    heads: int,
    heads_kv: int,
    head_dim: int,
    causal: bool,
    backward: bool,
    rounds: int,
) -> list[dict[str, Any]]:
    """Returns a row for fa2 and one for SDPA: median microseconds over rounds of random order, and TFLOP/s.

    backward: the gradients of q, k and v. Raises Unavailable without a GPU.
    """
    try:
        import torch
    except ImportError as error:
        raise _core.Unavailable("PyTorch = none, must be installed for bench: pip install torch") from error
    if not torch.cuda.is_available():
        raise _core.Unavailable("GPU = none, must be one that PyTorch sees: bench measures GPUs alone")
    shape, shape_kv = (batch, seqlen, heads, head_dim), (batch, seqlen, heads_kv, head_dim)
    options: dict[str, Any] = dict(dtype=getattr(torch, dtype), device="cuda", requires_grad=backward)
    q, k, v = torch.randn(shape, **options), torch.randn(shape_kv, **options), torch.randn(shape_kv, **options)
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    sdpa = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=causal, enable_gqa=heads != heads_kv)
    calls: dict[str, Callable[[], Any]] = {
        "fa2": lambda: attention(q, k, v, causal=causal),
        "SDPA": lambda: sdpa(qt, kt, vt),
    }
    if backward:
        for name, forward in tuple(calls.items()):
            out = forward()
            calls[name] = functools.partial(torch.autograd.grad, out, (q, k, v), torch.randn_like(out), retain_graph=True)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: max(1, round(5 / max(1e-3, min(_milliseconds(call, 3) for _ in range(3))))) for name, call in calls.items()}
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            samples[name].append(_milliseconds(calls[name], counts[name]))
    flops = (10 if backward else 4) * batch * heads * seqlen**2 * head_dim / (2 if causal else 1)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return [
        {"name": name, "us": round(1e3 * ms, 1), "tflops": round(flops / ms * 1e-9, 1), "over fa2": round(ms / medians["fa2"], 3)}
        for name, ms in medians.items()
    ]


def measure_all(
    *,
    dtypes: Iterable[str],
    head_dims: Iterable[int],
    seqlens: Iterable[int],
    causal: Iterable[bool],
    tokens: int,
    batch: int,
    hidden: int,
    heads: int,
    heads_kv: int,
    backward: bool,
    rounds: int,
) -> list[dict[str, Any]]:
    """Returns measure()'s rows for each combination, each preceded by its problem.

    If they are 0, batch follows from tokens, heads from hidden, and heads_kv is heads.
    """
    rows = []
    for dtype, head_dim, masked, seqlen in itertools.product(dtypes, head_dims, causal, seqlens):
        sequences, query_heads = batch or max(1, tokens // seqlen), heads or max(1, hidden // head_dim)
        found = measure(
            dtype=dtype,
            batch=sequences,
            seqlen=seqlen,
            heads=query_heads,
            heads_kv=heads_kv or query_heads,
            head_dim=head_dim,
            causal=masked,
            backward=backward,
            rounds=rounds,
        )
        problem = {
            "dtype": {"float16": "f16", "bfloat16": "bf16"}[dtype],
            "dim": head_dim,
            "causal": masked,
            "batch": sequences,
            "heads": f"{query_heads}/{heads_kv or query_heads}",
            "seqlen": seqlen,
        }
        rows += [{**problem, **row} for row in found]
    return rows
