"""What there is, and kernels made ahead of time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from . import _core
from ._call import MASKS

_DTYPES = {"float16": 0, "bfloat16": 1}


def machine() -> dict[str, Any]:
    """Version, driver, GPUs, NVRTC and cache directories; what is missing has an "error" that says why."""
    found: dict[str, Any] = json.loads(_core.machine())
    return found


def cache_files(directory: str | None = None, *, verify: bool = False) -> dict[str, Any]:
    """The compiled kernels of a cache directory, the last used first; the user's own cache if None.

    verify: reads every file and checks its checksums. "damaged" counts the entries that cannot be used.
    """
    found: dict[str, Any] = json.loads(_core.cache_list(directory, verify))
    return found


def prune_cache(directory: str | None = None, *, max_mb: int | None = None) -> dict[str, Any]:
    """Removes damaged files, then the least recently used ones until max_mb remain; FA2_CACHE_MAX_MB if None."""
    found: dict[str, Any] = json.loads(_core.cache_prune(directory, -1 if max_mb is None else max_mb << 20))
    return found


def precompile(
    archs: Iterable[str],
    *,
    head_dims: Iterable[int],
    dtypes: Iterable[str] = ("float16", "bfloat16"),
    causal: Iterable[bool | str] = (False, True),
    window: bool | Iterable[bool] = False,
    softcap: bool | Iterable[bool] = False,
    alibi: bool | Iterable[bool] = False,
    sinks: bool | Iterable[bool] = False,
    dropout: bool | Iterable[bool] = False,
    varlen: bool | Iterable[bool] = False,
    page_size: int = 0,
    batch_invariant: bool | Iterable[bool] = False,
    backward: bool = False,
    append: bool = False,
    merge: bool = False,
    out: str | None = None,
    jobs: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> list[dict[str, Any]]:
    """Compiles what attention() runs with these head dims and variants, whatever the sizes: one entry a kernel.

    archs: "sm_80", "sm_90a" ...; needs NVRTC and no GPU. A variant (window to batch_invariant) is a bool, or (False,
    True) for kernels without and with it. out: the directory to fill, for FA2_CACHE_PATH; the user's cache if None.
    jobs: compiling threads, 0: one a core. progress: called with how many kernels are done and how many there are, one
    call at a time. Raises CompileError with what failed.
    """
    variants = {
        "has_window_left": window,
        "softcap": softcap,
        "alibi": alibi,
        "sinks": sinks,
        "dropout": dropout,
        "varlen": True if page_size > 0 else varlen,
        "batch_invariant": batch_invariant,
    }
    presences = [(value,) if isinstance(value, bool) else tuple(value) for value in variants.values()]
    problems = [
        {
            "dtype": _DTYPES[dtype],
            "mask": MASKS[mask],
            "head_dim": head_dim,
            "seqlen_q": 1024,
            "seqlen_k": 1024,
            "page_size": page_size,
            "page_count": 1 if page_size else 0,
            **{name: int(wanted) for name, wanted in zip(variants, combination)},
        }
        for dtype, mask, head_dim in itertools.product(dtypes, causal, head_dims)
        for combination in itertools.product(*presences)
    ]
    report: list[dict[str, Any]] = json.loads(
        _core.precompile(problems, tuple(archs), out, progress, jobs, 0, backward, append, merge)
    )
    return report
