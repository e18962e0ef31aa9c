"""Outputs, and the launches, of PyTorch's tensors: what eager calls and operators share."""

from __future__ import annotations

from typing import Any

import torch

from . import _core
from ._call import CU_SEQLENS_Q, SEQUSED_Q, Options, rows_may_be_unused


def contiguous(x: Any) -> Any:
    """With a contiguous last dimension: x, or a copy; None stays None."""
    return x.contiguous() if x is not None and x.dim() > 0 and x.stride(-1) != 1 else x


def _like(tensor: torch.Tensor, head_dim: int, zeros: bool) -> torch.Tensor:
    """In the tensor's order in memory, where that has a contiguous last dimension."""
    if tensor.dim() > 0 and tensor.shape[-1] == head_dim and tensor.stride(-1) == 1:
        return torch.zeros_like(tensor) if zeros else torch.empty_like(tensor)
    shape = (*tensor.shape[:-1], head_dim)
    return tensor.new_zeros(shape) if zeros else tensor.new_empty(shape)


def new_out(q: torch.Tensor, v: torch.Tensor, options: Any) -> torch.Tensor:
    """Zeros where rows may be of no sequence, which kernels leave alone."""
    return _like(q, v.shape[-1] if v.dim() > 0 else 0, rows_may_be_unused(options[CU_SEQLENS_Q], options[SEQUSED_Q]))


def new_lse(q: torch.Tensor, options: Any) -> torch.Tensor:
    """Zeros as new_out() has them."""
    shape = q.shape
    rows = (shape[0], shape[2], shape[1]) if len(shape) == 4 else shape[:2][::-1]
    make = q.new_zeros if rows_may_be_unused(options[CU_SEQLENS_Q], options[SEQUSED_Q]) else q.new_empty
    return make(rows, dtype=torch.float32)


def run_forward(
    q: Any, k: Any, v: Any, out: Any, with_lse: bool, options: Any, keeps: bool = True
) -> tuple[Any, Any]:
    """`keeps`: memory of the call, its workspace, may outlive it."""
    lse = new_lse(q, options) if with_lse else None
    made = _core.forward(keeps, q, k, v, out, lse, options)
    if made is None:
        tensors = (contiguous(q), contiguous(k), contiguous(v))
        made = _core.forward(keeps, *tensors, new_out(q, v, options) if out is None else out, lse, options)
    return made, lse


def gradients(q: Any, k: Any, v: Any, wanted: Any, options: Options) -> tuple[Any, Any, Any, Any]:
    """Of q, k, v and sinks; None where not wanted."""
    zero_q = rows_may_be_unused(options.cu_seqlens_q, options.seqused_q)
    zero_k = rows_may_be_unused(options.cu_seqlens_k, options.seqused_k)
    return (
        _like(q, q.shape[-1], zero_q) if wanted[0] else None,
        _like(k, k.shape[-1], zero_k) if wanted[1] else None,
        _like(v, v.shape[-1], zero_k) if wanted[2] else None,
        torch.empty_like(options.sinks) if wanted[3] else None,
    )


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
    made: tuple[Any, Any, Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The gradients of q, k, v and sinks, new or in `made`, whose Nones are not wanted."""
    if d_out is None:
        d_out = torch.zeros_like(out)
    if d_lse is not None:
        d_lse = d_lse.contiguous()
    made = made or gradients(q, k, v, wanted, options)
    if q.numel() == 0 or k.numel() == 0:
        return tuple(None if x is None else x.zero_() for x in made)  # type: ignore[return-value]
    tensors = (contiguous(q), contiguous(k), contiguous(v), out, lse)
    _core.backward(contiguous(d_out), d_lse, *made, deterministic, *tensors, options)
    return made
