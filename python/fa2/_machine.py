"""The machine, the kernel caches, and kernels made ahead of time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from . import _core, _hooks, _mistakes
from ._call import FLAGS, KV_TYPES, LSE_BASES, MASKS
from ._types import Causal, Dtype, KvType, LseBase

_DTYPES = {"float16": 0, "bfloat16": 1}


def machine() -> dict[str, Any]:
    """Returns version, driver, GPUs, NVRTC and cache directories. What is missing has an "error" that says why."""
    found: dict[str, Any] = json.loads(_core.machine())
    return found


def cache_files(directory: str | None = None, *, verify: bool = False) -> dict[str, Any]:
    """Returns the compiled kernels of a cache directory, the last used first. None: the user's own cache.

    verify: reads every file and checks its checksums. "damaged" counts the entries that cannot be used.
    """
    found: dict[str, Any] = json.loads(_core.cache_list(directory, verify))
    return found


def prune_cache(directory: str | None = None, *, max_mb: int | None = None) -> dict[str, Any]:
    """Removes damaged files, then the least recently used ones until max_mb remain. None: FA2_CACHE_MAX_MB."""
    found: dict[str, Any] = json.loads(_core.cache_prune(directory, -1 if max_mb is None else max_mb << 20))
    return found


def _listed(value: Any) -> tuple[Any, ...]:
    """Returns the values of an argument that takes one or several."""
    is_one = isinstance(value, (str, int)) or not isinstance(value, Iterable)
    return (value,) if is_one else tuple(value)


def _require(lists: dict[str, tuple[Any, ...]], rules: dict[str, tuple[Callable[[Any], bool], str]]) -> None:
    """Raises InvalidRequest with every value that breaks its rule."""
    wrong = [
        f"{name} = {_hooks.text_of(value)}, {text}"
        for name, (is_right, text) in rules.items()
        for value in lists[name]
        if not is_right(value)
    ]
    if wrong:
        raise _mistakes.invalid_request(wrong)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


#: By argument of precompile(): whether a value is right, and the rule.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "archs": (lambda x: isinstance(x, str), 'must be names: pass ["sm_80", "sm_90a"]'),
    "head_dims": (_is_integer, "must be integers: pass [64, 128]"),
    "head_dim_v": (_is_integer, "must be an integer: 0 for as many columns as q and k have"),
    "dtypes": (lambda x: isinstance(x, str) and x in _DTYPES, 'must be "float16" or "bfloat16"'),
    "causal": (lambda x: isinstance(x, (bool, str)) and x in MASKS, 'must be True, False, "bottom_right" or "top_left"'),
    **dict.fromkeys(("window", "attention_chunk", *FLAGS), (lambda x: isinstance(x, bool), "must be True, False or (False, True)")),
    "page_size": (_is_integer, "must be an integer: 0 for no pages"),
    "kv_type": (lambda x: isinstance(x, str) and x in KV_TYPES, 'must be "same", "e4m3" or "ds_mla"'),
    "lse_base": (lambda x: isinstance(x, str) and x in LSE_BASES, 'must be "natural" or "two"'),
    "jobs": (_is_integer, "must be an integer: 0 for one thread per core"),
}


def precompile(
    archs: str | Iterable[str],
    *,
    head_dims: int | Iterable[int],
    dtypes: Dtype | Iterable[Dtype] = ("float16", "bfloat16"),
    causal: Causal | Iterable[Causal] = (False, True),
    window: bool | Iterable[bool] = False,
    attention_chunk: bool | Iterable[bool] = False,
    # written: flag parameters
    softcap: bool | Iterable[bool] = False,
    alibi: bool | Iterable[bool] = False,
    sinks: bool | Iterable[bool] = False,
    dropout: bool | Iterable[bool] = False,
    query_pieces: bool | Iterable[bool] = False,
    varlen: bool | Iterable[bool] = False,
    missing_pages: bool | Iterable[bool] = False,
    values_in_keys: bool | Iterable[bool] = False,
    batch_invariant: bool | Iterable[bool] = False,
    max_logits: bool | Iterable[bool] = False,
    float32_dk_dv: bool | Iterable[bool] = False,
    float32_dq: bool | Iterable[bool] = False,
    float32_out: bool | Iterable[bool] = False,
    # end of flag parameters
    head_dim_v: int = 0,
    page_size: int = 0,
    kv_type: KvType = "same",
    lse_base: LseBase = "natural",
    backward: bool = False,
    append: bool = False,
    merge: bool = False,
    out: str | None = None,
    jobs: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> list[dict[str, Any]]:
    """Compiles the kernels that attention() runs with these head dims and variants, for all sizes. Returns a dict per kernel.

    archs: "sm_80", "sm_90a" ...; needs NVRTC and no GPU. Every argument up to causal takes one value or several. A
    variant (window to float32_out) is a bool, or (False, True) for kernels without and with it. head_dim_v: columns of v
    and out, 0: as many as q and k have. kv_type: the element type of keys and values, "same" for that of q, "e4m3" for
    float8_e4m3fn, "ds_mla" for the rows of DeepSeek-V3.2; these two have no backward: then backward must be False. lse_base: as attention() has it. out: the directory
    to fill or the pack to write (.fa2pack), for FA2_CACHE_PATH; the user's cache if None. jobs: compiling threads, 0: one
    per core. progress: called with how many kernels are done and how many there are, one call at a time. Raises
    CompileError with what failed.
    """
    lists = {name: _listed(value) for name, value in locals().items() if name in _RULES}
    _require(lists, _RULES)
    variants = ("window", "attention_chunk", *FLAGS)
    fields = ("has_window_left", "has_attention_chunk", *FLAGS)
    if page_size > 0:
        lists["varlen"] = (True,)
    problems = [
        {
            "dtype": _DTYPES[dtype],
            "mask": MASKS[mask],
            "head_dim": head_dim,
            "head_dim_v": head_dim_v,
            "seqlen_q": 1024,
            "seqlen_k": 1024,
            "attention_chunk": 1,  # any length
            "page_size": page_size,
            "page_count": 1 if page_size else 0,
            "kv_type": KV_TYPES[kv_type],
            "lse_base": LSE_BASES[lse_base],
            **{name: int(wanted) for name, wanted in zip(fields, combination)},
        }
        for dtype, mask, head_dim in itertools.product(lists["dtypes"], lists["causal"], lists["head_dims"])
        for combination in itertools.product(*(lists[name] for name in variants))
    ]
    report: list[dict[str, Any]] = json.loads(
        _core.precompile(problems, lists["archs"], out, None, progress, jobs, 0, backward, append, merge, 0)
    )
    return report


def precompile_requests(
    requests: str,
    archs: str | Iterable[str] = (),
    *,
    exact: bool = False,
    out: str | None = None,
    jobs: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> list[dict[str, Any]]:
    """Compiles the kernels of what a program asked for when it ran with FA2_LOG_REQUESTS=FILE. Returns a dict per kernel.

    requests: that file. archs: "sm_80", "sm_90a" ...; without them, the GPU of each request. exact: only the kernels of the
    logged sizes, not of all sizes. out, jobs, progress, errors: as in precompile().
    """
    lists = {"archs": _listed(archs), "jobs": (jobs,)}
    _require(lists, {name: _RULES[name] for name in lists})
    report: list[dict[str, Any]] = json.loads(
        _core.precompile([], lists["archs"], out, requests, progress, jobs, 0, False, False, False, int(exact))
    )
    return report
