"""The launches of PyTorch's tensors, which eager calls and operators share."""

from __future__ import annotations

from typing import Any

import torch

from . import _core, _hooks
from ._call import CU_SEQLENS_Q, DIFFERENTIABLE, SEQUSED_Q, Options, rows_may_be_unused
from ._padding import MOST_WITH_GRADIENTS

contiguous = _hooks.contiguous


def new_out(q: torch.Tensor, v: torch.Tensor, options: Any) -> Any:
    """Returns a new output; its rows are 0 if they may belong to no sequence."""
    return _hooks.new_out(q, v.shape[-1], rows_may_be_unused(options[CU_SEQLENS_Q], options[SEQUSED_Q]))


def new_lse(q: torch.Tensor, options: Any) -> Any:
    """Returns a new LSE; its rows are 0 if they may belong to no sequence."""
    return _hooks.new_lse(q, rows_may_be_unused(options[CU_SEQLENS_Q], options[SEQUSED_Q]))


def run_forward(
    q: Any, k: Any, v: Any, out: Any, with_lse: bool, options: Any, keeps: bool = True
) -> tuple[Any, Any]:
    """Returns (out, lse), or (out, None). `keeps`: memory of the call, its workspace, may outlive it."""
    made = _core.forward(q, k, v, out, options, with_lse, keeps)
    return made if with_lse else (made, None)


def no_gradients(q: Any, k: Any, v: Any, more_columns: int = 0) -> _core.InvalidRequest | None:
    """Returns the error for gradients of tensors that have none; None if they have. `more_columns`: that q and k will have."""
    head_dim, head_dim_v = q.shape[-1] + more_columns, v.shape[-1]
    if k.dtype != q.dtype:
        why = f"k and v of {k.dtype}, which have no gradients: call under torch.no_grad(), or pass k and v in q's dtype"
    elif head_dim > MOST_WITH_GRADIENTS or head_dim_v > MOST_WITH_GRADIENTS:
        dims = f"head_dim = {head_dim} and head_dim_v = {head_dim_v}"
        why = f"{dims}, whose gradients are computed up to {MOST_WITH_GRADIENTS}: call under torch.no_grad(), or compute with another attention"
    else:
        return None
    return _core.InvalidRequest(f"requires_grad = True, must be False of q, k, v and sinks with {why}")


def gradients(q: Any, k: Any, v: Any, wanted: Any, options: Options) -> tuple[Any, ...]:
    """Returns memory for the gradients of q, k, v and DIFFERENTIABLE options; None for each that is not wanted."""
    zero_q = rows_may_be_unused(options.cu_seqlens_q, options.seqused_q)
    zero_k = rows_may_be_unused(options.cu_seqlens_k, options.seqused_k)
    return (
        _hooks.new_out(q, q.shape[-1], zero_q) if wanted[0] else None,
        _hooks.new_out(k, k.shape[-1], zero_k) if wanted[1] else None,
        _hooks.new_out(v, v.shape[-1], zero_k) if wanted[2] else None,
        *(torch.empty_like(getattr(options, x)) if is_wanted else None for x, is_wanted in zip(DIFFERENTIABLE, wanted[3:])),
    )


def capture_gradients(captures: Any, wanted: Any) -> tuple[Any, ...] | None:
    """Returns memory for the gradients of captures; None for each that is not wanted, or if none is."""
    if not any(wanted):
        return None
    return tuple(x.new_empty(x.shape, dtype=torch.float32) if is_wanted else None for x, is_wanted in zip(captures, wanted))


def run_backward(
    d_out: Any,
    d_lse: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    wanted: Any,
    deterministic: bool,
    options: Options,
    made: tuple[Any, ...] | None = None,
    d_captures: tuple[Any, ...] | None = None,
) -> tuple[Any, ...]:
    """Returns the gradients of q, k, v and DIFFERENTIABLE options: new ones, or `made`, in which None means that a
    gradient is not wanted. Writes d_captures, those of captures."""
    if d_out is None:
        d_out = torch.zeros_like(out)
    if d_lse is not None:
        d_lse = d_lse.contiguous()
    made = made or gradients(q, k, v, wanted, options)
    if q.numel() == 0 or k.numel() == 0:
        for x in (*made, *(d_captures or ())):
            if x is not None:
                x.zero_()
        return made
    _core.backward(q, k, v, out, lse, options, contiguous(d_out), d_lse, *made, d_captures, deterministic)
    return made
