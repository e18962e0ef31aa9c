"""Attention over sequences whose tokens are sharded over the ranks of a process group (context parallelism).

    from fa2 import context_parallel as cp

    layout = cp.Layout.zigzag(tokens, ranks)
    x = cp.shard(x, layout)  # (batch, tokens, ...): this rank's part; likewise cp.positions() and cp.shift_labels()
    out = cp.attention(q, k, v, layout=layout, causal=True)  # of all tokens, for this rank's queries
    out = cp.decode(q, k_cache, v_cache, cache_seqlens=used)  # of this rank's heads, over the caches of all ranks

Ranks must call attention(), decode(), plan(), Plan.run() and backwards in the same order, and with the same options. On the CPU,
and with FA2_CHECK=1, every call compares them, and every rank raises what any rank finds. Without, CUDA's ranks compare them when
a plan is made. A rank that then has other options, or finds a mistake in its own, leaves the others waiting until a timeout.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, Union

import torch
import torch.distributed as dist
from torch._compile import _disable_dynamo as outside_graphs  # torch.compiler.disable() imports Dynamo here, for seconds

from . import _core, _hooks, _mistakes, _torch
from ._call import MASKS
from ._communicator import group_of
from ._shard_decode import decode, plan_decode
from ._shard_plan import BITWISE, D_SINKS, GRADIENTS, NativePlan, Numbers, Request, SCHEMES
from ._shard_plan import agree, aligned, all_check, held_memo, memo_of, plan_of, require_tensors
from ._shards import Layout, borders_of, positions, shard, shift_labels, unshard
from ._torch_run import no_gradients
from ._types import Causal

__all__ = ["Layout", "Plan", "attention", "decode", "plan", "plan_decode", "positions", "shard", "shift_labels", "unshard"]

Scheme = Literal["automatic", "gather_heads", "local", "all_to_all", "staged"]
LayoutOrName = Union[Layout, Literal["zigzag", "contiguous"]]
_CAUSAL = (False, "bottom_right", "top_left")
_LAYOUTS = ("zigzag", "contiguous")
_MOST_REQUESTS = 256  # of a group and device: calls of other shapes or options


class _Attention(torch.autograd.Function):
    """lse is an output if return_lse."""

    @staticmethod
    def forward(ctx: Any, plan: NativePlan, numbers: Numbers, return_lse: bool, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        ctx.set_materialize_grads(False)
        q, k, v = (aligned(x) for x in (q, k, v))
        out, lse = plan.run(q, k, v, numbers, True)
        ctx.save_for_backward(q, k, v, out, lse, sinks, numbers.alibi_slopes, numbers.dropout_state)
        ctx.plan, ctx.numbers = plan, numbers._replace(sinks=None, alibi_slopes=None, dropout_state=None)
        return (out, lse) if return_lse else out

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, d_out: Any, d_lse: Any = None) -> Any:
        *saved, sinks, slopes, state = ctx.saved_tensors
        numbers = ctx.numbers._replace(sinks=sinks, alibi_slopes=slopes, dropout_state=state)
        d_out = aligned(torch.zeros_like(saved[3]) if d_out is None else d_out)
        d_lse = None if d_lse is None else d_lse.contiguous()
        made = ctx.plan.run_backward(d_out, d_lse, tuple(saved), numbers)
        return (None, None, None, *(x if wanted else None for x, wanted in zip(made, ctx.needs_input_grad[3:])))


def _draw(group: Any, device: torch.device) -> torch.Tensor:
    """Returns seed and offset of dropout, drawn from rank 0's generator, on all ranks."""
    state = torch.randint(2**62, (2,), dtype=torch.int64, device=device)
    dist.broadcast(state, dist.get_global_rank(group, 0), group)
    return state


class Plan:
    """Attention over sharded tokens, prepared by plan() on every rank."""

    def __init__(self, native: NativePlan, group: Any, layout: Layout, like: Any, numbers: Numbers) -> None:
        self.layout = layout
        self._native, self._group, self._like, self._numbers = native, group, like, numbers

    def run(
        self, q: Any, k: Any, v: Any, *, return_lse: bool = False, dropout_seed: int | None = None, dropout_offset: int = 0
    ) -> Any:
        """Returns what attention() does, for tensors like those of plan(). All ranks must call it in the same order."""
        return _run(self, q, k, v, return_lse, dropout_seed, dropout_offset)

    def explain(self) -> dict[str, Any]:
        """Returns what runs on this rank and why: the scheme, groups, bytes to and from each rank, kernels."""
        return self._native.explain()


def _like(q: Any, k: Any, v: Any) -> Any:
    return q.dtype, q.device, q.shape, k.shape, v.shape


@outside_graphs
def _run(plan: Plan, q: Any, k: Any, v: Any, return_lse: bool, seed: int | None, offset: int) -> Any:
    if _like(q, k, v) != plan._like:
        texts = (", ".join(map(str, (dtype, device, *map(tuple, shapes)))) for dtype, device, *shapes in (_like(q, k, v), plan._like))
        raise _core.InvalidRequest("q, k, v = {}, must be like the plan's, {}".format(*texts))
    numbers, native = plan._numbers, plan._native
    if numbers.dropout_p and seed is None:
        numbers = numbers._replace(dropout_state=_draw(plan._group, q.device))
    elif numbers.dropout_p and seed is not None:
        numbers = numbers._replace(dropout_seed=seed, dropout_offset=offset)
    if numbers.sinks is not None:
        numbers = numbers._replace(sinks=numbers.sinks.float())
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, numbers.sinks)):
        if not native.gradients:
            raise _core.InvalidRequest("requires_grad = True, must be False with a plan without gradients: pass gradients=True to plan()")
        return _Attention.apply(native, numbers, return_lse, q, k, v, numbers.sinks)  # type: ignore[no-untyped-call]
    out, lse = native.run(aligned(q), aligned(k), aligned(v), numbers, return_lse)
    return (out, lse) if return_lse else out


@functools.lru_cache(maxsize=64)
def _equal_shards(kind: str, tokens: int, ranks: int, borders: tuple[int, ...] | None) -> Layout:
    make = Layout.zigzag if kind == "zigzag" else Layout.contiguous
    return make(tokens, ranks, 1, borders)


def _layout_of(layout: Any, borders: tuple[int, ...] | None, own: int, ranks: int, broken: list[str]) -> Any:
    """Returns the layout that arguments mean, with documents. own: tokens of the rank."""
    if isinstance(layout, Layout):
        if borders in (None, layout.cu_seqlens):
            return layout
        if layout.cu_seqlens is None:
            return Layout(layout.tokens, layout.ranks, borders)
        broken.append(f"cu_seqlens = {_hooks.text_of(borders)}, must be the layout's, {_hooks.text_of(layout.cu_seqlens)}")
    elif not isinstance(layout, str) or layout not in _LAYOUTS:
        broken.append(f'layout = {_hooks.text_of(layout)}, must be a Layout, "zigzag" or "contiguous"')
    elif borders is None and layout == "zigzag" and own % 2:
        broken.append(f'q.shape[1] = {own}, must be even with layout="zigzag": pass a Layout for shards of unequal lengths')
    else:
        return _equal_shards(layout, own * ranks if borders is None else borders[-1], ranks, borders)
    return None


def _check_shapes(q: Any, k: Any, v: Any, is_packed: bool, broken: list[str]) -> None:
    form = "(tokens, heads, head_dim) with documents" if is_packed else "(batch, tokens, heads, head_dim) without documents"
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != (3 if is_packed else 4):
            broken.append(f"{name}.shape = {tuple(x.shape)}, must be {form}")
        elif x.shape[:-2] != q.shape[:-2] or x.device != q.device:
            broken.append(f"{name} = {tuple(x.shape)} on {x.device}, must have q's tokens and device, {tuple(q.shape)} on {q.device}")
    if k.shape[-1:] != q.shape[-1:]:
        broken.append(f"k.shape[-1] = {k.shape[-1]}, must be {q.shape[-1]} = head_dim of q")
    if v.shape[-2:-1] != k.shape[-2:-1]:
        broken.append(f"v.shape[-2] = {v.shape[-2]}, must be {k.shape[-2]} = heads of k")


def _check_head_numbers(q: Any, alibi_slopes: Any, sinks: Any, is_packed: bool, broken: list[str]) -> None:
    heads = q.shape[-2]
    if sinks is not None and (sinks.shape != (heads,) or sinks.device != q.device):
        broken.append(f"sinks = {tuple(sinks.shape)} on {sinks.device}, must be ({heads},) on {q.device} = one per head")
    if alibi_slopes is None:
        return
    allowed = [(heads,)] if is_packed else [(heads,), (q.shape[0], heads)]
    given = (tuple(alibi_slopes.shape), alibi_slopes.dtype, alibi_slopes.device)
    if given[0] not in allowed or given[1:] != (torch.float32, q.device) or not alibi_slopes.is_contiguous():
        forms = " or ".join(map(str, allowed))
        broken.append(f"alibi_slopes = {given[0]} of {given[1]} on {given[2]}, must be {forms} of float32 on {q.device}, contiguous")


def _request(q: Any, k: Any, v: Any, group: Any, cu_seqlens: Any, deterministic: bool, gradients: bool, options: dict[str, Any]) -> Request:
    """Returns what the rank asks for. Raises everything that is wrong with it."""
    o = options
    wrong = _mistakes.find({"q": q, "k": k, "v": v, "deterministic": deterministic, **{x: o[x] for x in o if x != "layout"}})[0]
    if not isinstance(o["scheme"], str) or o["scheme"] not in SCHEMES:
        wrong["scheme"] = f'scheme = {_hooks.text_of(o["scheme"])}, must be "automatic", "gather_heads", "local", "all_to_all" or "staged"'
    if not isinstance(o["groups"], int) or o["groups"] < 0:
        wrong["groups"] = f"groups = {_hooks.text_of(o['groups'])}, must be an integer from 0 on: 0 to have it chosen"
    require_tensors({"q": q, "k": k, "v": v}, wrong)
    broken, layout, borders = list(wrong.values()), o["layout"], borders_of(cu_seqlens)
    is_packed = borders is not None or (isinstance(layout, Layout) and layout.cu_seqlens is not None)
    _check_shapes(q, k, v, is_packed, broken)
    if min(x.ndim for x in (q, k, v)) < 3:
        raise _mistakes.invalid_request(broken)
    _check_head_numbers(q, o["alibi_slopes"], o["sinks"], is_packed, broken)
    rank, ranks, own = dist.get_rank(group), dist.get_world_size(group), q.shape[-3]
    found = _layout_of(layout, borders, own, ranks, broken)
    if found is not None and len(found.ranks) != ranks:
        broken.append(f"layout.ranks = {len(found.ranks)}, must be {ranks} = ranks of the group")
    elif found is not None and found.tokens_of(rank) != own:
        broken.append(f"q.shape[-3] = {own}, must be {found.tokens_of(rank)} = tokens of rank {rank} in {found}")
    if broken:
        raise _mistakes.invalid_request(broken)
    if gradients and (error := no_gradients(q, k, v)) is not None:
        raise error
    wanted = GRADIENTS | (D_SINKS if o["sinks"] is not None else 0) | (BITWISE if _torch.wants_bits(deterministic) else 0)
    left, right = o["window_size"]
    return Request(
        dtype=q.dtype,
        batch=1 if is_packed else q.shape[0],
        heads=q.shape[-2],
        heads_kv=k.shape[-2],
        head_dim=q.shape[-1],
        head_dim_v=v.shape[-1],
        layout=found,
        causal=_CAUSAL[MASKS[o["causal"]]],
        window_size=(int(left), int(right)),
        softcap=o["softcap"] > 0,
        alibi=o["alibi_slopes"] is not None,
        sinks=o["sinks"] is not None,
        dropout=o["dropout_p"] > 0,
        scheme=o["scheme"],
        groups=o["groups"],
        gradients=wanted if gradients else 0,
    )


def _key_of(tensors: tuple[Any, ...], deterministic: Any, gradients: bool, options: dict[str, Any]) -> Any:
    """Returns all that a request is made of, beside the group; None if other tensors are among it."""
    if options["alibi_slopes"] is not None or options["sinks"] is not None or any(type(x) is not torch.Tensor for x in tensors):
        return None
    given = (deterministic, *options.values())
    key = (*_like(*tensors), *(x.layout for x in tensors), gradients, _torch.wants_bits(deterministic), *given, *map(type, given))
    try:
        hash(key)
    except TypeError:  # a wrong option
        return None
    return key


def _known_request(group: Any, key: Any) -> Request | None:
    """Returns the request of an earlier call with this key, which saves the time of its checks."""
    memo = None if key is None else held_memo(group, key[1])
    return None if memo is None else memo.requests.get(key)


def plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: Any = None,
    layout: LayoutOrName = "zigzag",
    scheme: Scheme = "automatic",
    groups: int = 0,
    causal: Causal = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    cu_seqlens: Any = None,
    deterministic: bool = False,
    gradients: bool | None = None,
) -> Plan:
    """Returns the Plan of attention() with these arguments. All ranks must call it together.

    q, k, v: like those of its runs. gradients: whether it has a backward; None: if a tensor requires gradients.
    """
    group, request, error = group_of(group), None, None
    if gradients is None:
        gradients = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in (q, k, v, sinks))
    options: dict[str, Any] = dict(layout=layout, scheme=scheme, groups=groups, causal=causal, window_size=window_size, softcap=softcap)
    options.update(alibi_slopes=alibi_slopes, sinks=sinks, softmax_scale=softmax_scale, dropout_p=dropout_p)
    key = None if cu_seqlens is not None else _key_of((q, k, v), deterministic, gradients, options)
    try:
        request = _known_request(group, key) or _request(q, k, v, group, cu_seqlens, deterministic, gradients, options)
    except _core.InvalidRequest as wrong:
        error = wrong
    if all_check(q):
        numbers = dict(softcap=softcap, softmax_scale=softmax_scale, dropout_p=dropout_p)
        agree(group, None if request is None else {**request._asdict(), **numbers}, error)
    if request is None:
        raise error or AssertionError
    memo = memo_of(group, q.device)
    native: NativePlan = plan_of(memo, request)
    if key is not None:
        memo.requests[key] = request
        if len(memo.requests) > _MOST_REQUESTS:
            del memo.requests[next(iter(memo.requests))]
    of_runs = Numbers(softcap, softmax_scale, dropout_p, 0, 0, None, alibi_slopes, sinks)
    return Plan(native, group, request.layout, _like(q, k, v), of_runs)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: Any = None,
    layout: LayoutOrName = "zigzag",
    scheme: Scheme = "automatic",
    groups: int = 0,
    causal: Causal = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    cu_seqlens: Any = None,
    deterministic: bool = False,
    return_lse: bool = False,
) -> Any:
    """Returns attention over the tokens of all ranks for this rank's queries, as fa2.attention() computes it. Differentiable.

    All ranks of the group must call it, and its backward, in the same order and with the same options. Plans are kept per group.

    q, k, v: this rank's tokens: (batch, tokens, heads, head_dim), or with documents (tokens, heads, head_dim). CUDA tensors
        travel through memory that ranks of a host map, or by NCCL, and CPU tensors by the group itself, slowly.
    group: PyTorch's process group; None: the default one.
    layout: which rank holds which tokens. "zigzag", "contiguous": shards of equal length, Layout's with a granule of 1.
    scheme: "gather_heads" gathers keys and values by groups of heads while others are computed. "all_to_all": each rank
        computes some heads for all tokens. "staged": each rank attends to the keys of one rank at a time, and merges. "local": no rank needs another's keys, which is an error if one does.
        "automatic": local if that is possible, else that of the others which sends fewer bytes before its first kernel.
    groups: most groups of heads; 0: chosen. More groups hide more of the exchange, and need less memory.
    causal, window_size, softcap, alibi_slopes, softmax_scale: as in fa2.attention(), of positions among all tokens.
    sinks: (heads). Their gradient is this rank's part: the gradient of the whole is the sum over all ranks.
    dropout_p: without dropout_seed, each call draws from rank 0's generator of the device, and broadcasts that.
    cu_seqlens: where documents begin among all tokens, and the end: a list, or a tensor on the CPU. None: the layout's.
    deterministic: gradients have the same bits in every run.
    return_lse: returns (out, lse). lse: float32 (batch, heads, tokens) or (heads, tokens). Differentiable.

    Gradients of q, k and v are plain sums over all ranks' queries, not means. Raises InvalidRequest, which lists everything that
    is wrong; CommunicationError if ranks cannot exchange data.
    """
    found: Plan = _plan(
        *(q, k, v),
        **dict(group=group, layout=layout, scheme=scheme, groups=groups, causal=causal, window_size=window_size),
        **dict(softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks, softmax_scale=softmax_scale, dropout_p=dropout_p),
        **dict(cu_seqlens=cu_seqlens, deterministic=deterministic),
    )
    return found.run(q, k, v, return_lse=return_lse, dropout_seed=dropout_seed, dropout_offset=dropout_offset)


_plan: Any = outside_graphs(plan)
