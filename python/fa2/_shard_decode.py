"""Decoding over caches that ranks hold: each has some keys of every sequence, and some heads of the queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._compile import _disable_dynamo as outside_graphs

from . import _core, _hooks, _mistakes
from ._c_structs import Problem
from ._communicator import group_of
from ._flash_cache import as_lengths
from ._shard_plan import DTYPES, Native, Numbers, address_of, agree, aligned, all_check, args_of, held_plan, is_aligned, memo_of, plan_of, require_tensors
from ._types import Causal


class DecodeRequest(NamedTuple):
    """What ranks make a plan for. Must be equal on all of them."""

    dtype: torch.dtype
    batch: int
    seqlen_q: int
    heads: int  #: of all ranks
    heads_kv: int
    head_dim: int
    head_dim_v: int
    page_size: int  #: 0: no pages
    has_lengths: bool
    softcap: bool
    sinks: bool


class _Keys(NamedTuple):
    """How many keys a rank's cache has room for. May differ between ranks."""

    rows: int  #: of each sequence
    pages: int  #: 0: no pages

    def __str__(self) -> str:
        return f"{self.rows} rows" + (f" in {self.pages} pages" if self.pages else "")

    def problem(self, request: DecodeRequest) -> Problem:
        """Returns the problem of the rank's own keys."""
        p = Problem.new()
        p.dtype, p.head_dim, p.head_dim_v = DTYPES[request.dtype], request.head_dim, request.head_dim_v
        p.batch, p.heads_q, p.heads_kv = request.batch, request.heads, request.heads_kv
        p.seqlen_q, p.seqlen_k, p.page_count = request.seqlen_q, *self
        p.varlen, p.page_size = request.has_lengths, request.page_size
        p.softcap, p.sinks = request.softcap, request.sinks
        return p


class _Call(NamedTuple):
    request: DecodeRequest
    keys: _Keys
    tensors: tuple[torch.Tensor, ...]  #: q, k and v
    lengths: torch.Tensor | None
    table: torch.Tensor | None
    numbers: Numbers


class _NativeDecodePlan(Native):
    """A rank's fa2_context_parallel_decode_plan."""

    _kind = "context_parallel_decode_plan"

    def run(self, call: _Call, return_lse: bool) -> Any:
        q, k, v = call.tensors
        out, lse = _hooks.new_out(q, v.shape[-1]), _hooks.new_lse(q) if return_lse else None
        args = args_of((q, k, v, out, lse), call.numbers)
        args.seqused_k, args.page_table = address_of(call.lengths), address_of(call.table)
        args.page_table_stride = 0 if call.table is None else call.table.stride(0)
        self._call("run", args)
        return (out, lse) if return_lse else out


def _check_shapes(q: Any, k: Any, v: Any, is_paged: bool, broken: list[str]) -> None:
    if not is_paged and len(k) != len(q):
        broken.append(f"k_cache.shape[0] = {len(k)}, must be {len(q)} = batch of q, or pages with page_table")
    for name, x in (("k_cache", k), ("v_cache", v)):
        if x.device != q.device:
            broken.append(f"{name}.device = {x.device}, must be q's, {q.device}")
        if not is_aligned(x):
            broken.append(f"{name}.stride() = {x.stride()}, must make rows begin at multiples of 16 bytes: allocate the cache contiguous")
    if k.shape[-1] != q.shape[-1]:
        broken.append(f"k_cache.shape[-1] = {k.shape[-1]}, must be {q.shape[-1]} = head_dim of q")
    if v.shape[:-1] != k.shape[:-1]:
        broken.append(f"v_cache.shape[:-1] = {tuple(v.shape[:-1])}, must be k_cache's, {tuple(k.shape[:-1])}")


def _check_mask(queries: int, causal: Any, window_size: Any, broken: list[str]) -> None:
    if causal and (queries > 1 or causal == "top_left"):
        broken.append(f"causal = {causal}, must be False: queries see all keys of all caches: pass one query per call, or causal=False")
    if tuple(window_size) != (-1, -1):
        broken.append(f"window_size = {window_size}, must be (-1, -1): queries see all keys of all caches: keep only the window's keys in them")


def _check_table(name: str, x: Any, q: torch.Tensor, form: str, broken: list[str]) -> None:
    if isinstance(x, torch.Tensor):
        fits = x.ndim == 1 + ("pages" in form) and x.shape[0] == q.shape[0] and x.dtype == torch.int32 and x.device == q.device
        if fits and (x.numel() == 0 or x.stride(-1) == 1):
            return
        given = f"{tuple(x.shape)} of {x.dtype} on {x.device}"
    else:
        given = _hooks.text_of(x)  # which would read a tensor of the device
    broken.append(f"{name} = {given}, must be {form} of torch.int32 on {q.device}, contiguous: batch = {len(q)}")


def _lengths_of(q: Any, rows: int, cache_seqlens: Any, page_table: Any, broken: list[str]) -> Any:
    """Returns int32 (batch), or None if all rows count. rows: of a sequence's cache."""
    if page_table is not None:
        _check_table("page_table", page_table, q, "(batch, pages)", broken)
    if isinstance(cache_seqlens, int):
        if 0 <= cache_seqlens <= rows:
            return as_lengths(cache_seqlens, len(q), q.device)
        broken.append(f"cache_seqlens = {cache_seqlens}, must be in 0..{rows} = rows of this rank's cache")
    elif cache_seqlens is not None:
        _check_table("cache_seqlens", cache_seqlens, q, "a number, or (batch)", broken)
    elif page_table is not None:
        broken.append("cache_seqlens = None, must be given with page_table")
    return cache_seqlens


def _check_entries(lengths: Any, table: Any, keys: _Keys, page_size: int) -> None:
    """Raises what is wrong with tables' entries. Waits for the device."""
    if lengths is None:
        return
    if bool(((lengths < 0) | (lengths > keys.rows)).any()):
        text = f"cache_seqlens = {_hooks.text_of(lengths.tolist())}, must be in 0..{keys.rows} = rows of this rank's cache"
        raise _mistakes.invalid_request([text])
    if table is not None:
        is_used = torch.arange(table.shape[1], device=table.device) * page_size < lengths[:, None]
        if bool((is_used & ((table < 0) | (table >= keys.pages))).any()):
            raise _mistakes.invalid_request([f"page_table = pages that do not exist, must be in 0..{keys.pages - 1} up to cache_seqlens"])


def _call_of(group: Any, q: Any, k: Any, v: Any, cache_seqlens: Any, page_table: Any, options: dict[str, Any]) -> _Call:
    """Returns the rank's call. Raises everything that is wrong with it."""
    tensors, sinks = {"q": q, "k_cache": k, "v_cache": v}, options["sinks"]
    wrong = _mistakes.find({**tensors, "page_table": page_table, **options})[0]
    require_tensors(tensors, wrong)
    broken, is_paged = list(wrong.values()), page_table is not None
    broken += [f"{name}.shape = {tuple(x.shape)}, must have 4 dimensions" for name, x in tensors.items() if x.ndim != 4]
    if "page_table" in wrong or any(x.ndim != 4 for x in (q, k, v)):
        raise _mistakes.invalid_request(broken)
    _check_shapes(q, k, v, is_paged, broken)
    if not {"causal", "window_size"} & wrong.keys():
        _check_mask(q.shape[1], options["causal"], options["window_size"], broken)
    keys = _Keys(page_table.shape[-1] * k.shape[1], len(k)) if is_paged else _Keys(k.shape[1], 0)
    lengths = _lengths_of(q, keys.rows, cache_seqlens, page_table, broken)
    heads = dist.get_world_size(group) * q.shape[2]
    if sinks is not None and (sinks.shape != (heads,) or sinks.device != q.device):
        broken.append(f"sinks = {tuple(sinks.shape)} on {sinks.device}, must be ({heads},) on {q.device} = one per head of all ranks")
    if broken:
        raise _mistakes.invalid_request(broken)
    if all_check(q):
        _check_entries(lengths, page_table, keys, k.shape[1])
    request = DecodeRequest(
        *(q.dtype, len(q), q.shape[1], heads, k.shape[2], q.shape[3], v.shape[3]),
        *(k.shape[1] if is_paged else 0, lengths is not None, options["softcap"] > 0, sinks is not None),
    )
    sinks = None if sinks is None else sinks.float()
    numbers = Numbers(softcap=options["softcap"], softmax_scale=options["softmax_scale"], sinks=sinks)
    return _Call(request, keys, (aligned(q), k, v), lengths, page_table, numbers)


_DO = "allocate caches once and pass cache_seqlens, or call plan_decode() on all ranks after a change"


def _planned(group: Any, is_new: bool, tensors: tuple[Any, Any, Any, Any, Any], options: dict[str, Any]) -> tuple[_Call, _NativeDecodePlan]:
    """Returns the rank's call and its plan: a new one if `is_new`, or if the ranks have none for the request."""
    call, error, held = None, None, None
    try:
        call = _call_of(group, *tensors, options)
        held = held_plan(group, call.tensors[0].device, call.request)
        if held and call.keys not in held and not is_new:
            # Other ranks may have plans for their caches. They would not wait for this one to make its own.
            known = " or ".join(map(str, held))
            raise _mistakes.invalid_request([f"k_cache, v_cache = {call.keys}, must be as in a plan, {known}: {_DO}"])
    except _core.InvalidRequest as found:
        error = found
    if all_check(tensors[0]):
        numbers = {name: options[name] for name in ("softcap", "softmax_scale")}
        agree(group, None if call is None else {**call.request._asdict(), **numbers}, error)
    if call is None or error is not None:
        raise error or AssertionError
    memo = memo_of(group, call.tensors[0].device)
    memo = memo._replace(plans=plan_of(memo, call.request, lambda *_: {}))

    def make(communicator: Any, keys: _Keys) -> _NativeDecodePlan:
        return _NativeDecodePlan(communicator, None, keys.problem(call.request))

    if is_new:
        plan = make(memo.communicator, call.keys)  # an error leaves the old one on all ranks
        memo.plans[call.keys] = plan
    return call, plan_of(memo, call.keys, make)


@outside_graphs
def plan_decode(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, *, group: Any = None, cache_seqlens: Any = None, page_table: Any = None, **options: Any
) -> dict[str, Any]:
    """Makes the plan of decode() with these arguments, and returns what runs on this rank and why. All ranks must call it together.

    decode() makes the first plan by itself. Call this when caches of other shapes come on any rank, because ranks do not see each
    other's; decode() then takes both shapes.
    """
    group = group_of(group)
    given: dict[str, Any] = dict(causal=False, window_size=(-1, -1), softcap=0.0, sinks=None, softmax_scale=None)
    if unknown := options.keys() - given.keys():
        raise TypeError(f"plan_decode() got an unexpected keyword argument {unknown.pop()!r}")
    return _planned(group, True, (q, k_cache, v_cache, cache_seqlens, page_table), given | options)[1].explain()


@outside_graphs
def decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    group: Any = None,
    cache_seqlens: int | torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    causal: Causal = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """Returns attention of this rank's heads over the keys of all ranks: (batch, seqlen_q, heads / ranks, head_dim). Has no gradient.

    For caches that are larger than one GPU's memory: queries and parts of outputs travel, keys do not. All ranks of the group must
    call it in the same order and with the same options. Plans are kept per group; plan_decode() makes one ahead.

    q: (batch, seqlen_q, heads / ranks, head_dim): rank r has the query heads from r * heads / ranks on. head_dim <= 512.
    k_cache, v_cache: this rank's keys of every sequence, with all key/value heads: (batch, rows, heads_kv, head_dim), or with
        page_table pages (pages, page_size, heads_kv, head_dim). Ranks may have different numbers of rows and pages, which must stay
        from call to call: see plan_decode().
    cache_seqlens: how many keys of each sequence this rank has, 0 too: a number or int32 (batch); None: all rows.
    page_table: int32 (batch, pages per sequence); needs cache_seqlens.
    causal, window_size: queries see all keys of all caches, so a mask must hide none: causal with one query, and no window.
    softcap, softmax_scale: as in fa2.attention(). sinks: (heads of all ranks), on every rank.
    return_lse: returns (out, lse). lse: float32 (batch, heads / ranks, seqlen_q), over all keys.

    A query that sees no key has output 0. Raises InvalidRequest, which lists everything that is wrong; CommunicationError if ranks
    cannot exchange data.
    """
    options: dict[str, Any] = dict(causal=causal, window_size=window_size, softcap=softcap, sinks=sinks, softmax_scale=softmax_scale)
    call, native = _planned(group_of(group), False, (q, k_cache, v_cache, cache_seqlens, page_table), options)
    return native.run(call, return_lse)
