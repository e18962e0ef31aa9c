"""Attention with FlashAttention-3's qv, computed as latent attention: keys are [v | k], queries [qv | q]."""

from __future__ import annotations

from typing import Any

import torch

from . import _mistakes, _torch
from ._call import SINKS, Options
from ._flash_call import attend, with_scale
from ._padding import multiple_of, pad_head_dim
from ._torch_run import no_gradients


def join(q: Any, k: Any, v: Any, qv: Any, options: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Calls join_tensors() with the factors of the options."""
    given = Options(*options)
    return join_tensors(q, k, v, qv, given.k_descale, given.v_descale)


def join_tensors(q: Any, k: Any, v: Any, qv: Any, k_descale: Any, v_descale: Any) -> tuple[Any, Any, Any]:
    """Returns (queries, keys, values) with the scores q k^T + qv v^T. Values are the first columns of the keys.

    Columns that follow each other in memory, v before k or qv before q, become one view. Others are copied side by side: with
    a cache, all of its rows.
    """
    _check(q, k, v, qv, k_descale, v_descale)
    keys = _beside(v, k)
    return _beside(qv, q), keys, keys[..., : v.shape[-1]]


def attend_latent(
    q: Any, k: Any, v: Any, qv: Any, options: tuple[Any, ...], deterministic: bool, return_lse: bool
) -> Any:
    """Returns what _flash_call.attend() does, with the scores q k^T + qv v^T unless qv is None.

    Where gradients are wanted that do not exist, as FlashAttention-3 a backward raises, not the forward.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return _attend(q, k, v, qv, options, deterministic, return_lse)
    inputs = [x for x in (q, k, v, qv, options[SINKS]) if x is not None]
    error = no_gradients(q, k, v, 0 if qv is None else v.shape[-1]) if any(x.requires_grad for x in inputs) else None
    if error is None:
        return _attend(q, k, v, qv, options, deterministic, return_lse)
    with torch.no_grad():
        result = _attend(q, k, v, qv, options, deterministic, return_lse)
    return tuple(_refusing(error, x, *inputs) for x in result) if return_lse else _refusing(error, result, *inputs)


class _Refusal(torch.autograd.Function):
    """Returns a result of `inputs` whose backward raises an error."""

    @staticmethod
    def forward(ctx: Any, error: Exception, result: Any, *inputs: Any) -> Any:
        ctx.error = error
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise ctx.error


_refusing: Any = _Refusal.apply


def _attend(q: Any, k: Any, v: Any, qv: Any, options: tuple[Any, ...], deterministic: bool, return_lse: bool) -> Any:
    if qv is None:
        return attend(q, k, v, options, deterministic, return_lse)
    head_dim, head_dim_v, multiple = q.shape[-1], v.shape[-1], multiple_of(k)
    if head_dim % multiple == 0 and head_dim_v % multiple == 0:
        return attend(*join(q, k, v, qv, options), options, deterministic, return_lse)
    q, k, v, qv = (pad_head_dim(x, multiple) for x in (q, k, v, qv))
    options = with_scale(options, head_dim + head_dim_v)
    result = attend(*join(q, k, v, qv, options), options, deterministic, return_lse)
    return (result[0][..., :head_dim_v], result[1]) if return_lse else result[..., :head_dim_v]


def _check(q: Any, k: Any, v: Any, qv: Any, k_descale: Any, v_descale: Any) -> None:
    """Raises if the tensors cannot be joined."""
    wrong = []
    for name, given, other, like in (("qv", qv, "q", q), ("v", v, "k", k)):
        for attribute in ("dtype", "device"):
            found, expected = getattr(given, attribute), getattr(like, attribute)
            if found != expected:
                wrong.append(f"{name}.{attribute} = {found}, must be {expected}, as {other}")
        shape = (*like.shape[:-1], v.shape[-1])
        if given.shape != shape:
            wrong.append(f"{name}.shape = {tuple(given.shape)}, must be {shape}: as {other}, with v's columns")
    if wrong:
        raise _mistakes.invalid_request(wrong)
    if not _are_same(k_descale, v_descale):
        raise NotImplementedError(
            "k_descale, v_descale = two tensors, must be one with qv, because k and v become one tensor of keys: pass the same tensor twice"
        )


def _are_same(a: Any, b: Any) -> bool:
    """Returns whether both are the same memory, or None."""
    if a is None or b is None:
        return a is b
    return (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride())


def _beside(first: Any, second: Any) -> Any:
    """Returns the columns of both, side by side: a view if they are so in memory, else a copy."""
    columns = first.shape[-1] + second.shape[-1]
    if _are_neighbours(first, second):
        return first.as_strided((*first.shape[:-1], columns), first.stride())
    if first.itemsize > 1:
        return torch.cat((first, second), -1)
    return torch.cat((first.view(torch.uint8), second.view(torch.uint8)), -1).view(first.dtype)


def _are_neighbours(first: Any, second: Any) -> bool:
    """Returns whether each row of `second` begins where that of `first` ends. False with gradients, because as_strided() would
    give all of them to `first`."""
    if torch.compiler.is_compiling() or not _torch.is_plain(first, second, first):
        return False
    if torch.is_grad_enabled() and (first.requires_grad or second.requires_grad):
        return False
    return (
        first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        and second.storage_offset() == first.storage_offset() + first.shape[-1]
        and all(n <= 1 or a == b for n, a, b in zip(first.shape[:-1], first.stride(), second.stride()))
        and first.stride(-1) == second.stride(-1) == 1
    )
