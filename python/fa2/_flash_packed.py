"""Attention of packed kv or qkv tensors, whose gradient is one tensor."""

from __future__ import annotations

from typing import Any

import torch

from . import _torch
from ._call import Options, rows_may_be_unused
from ._flash_call import with_scale
from ._padding import pad_head_dim
from ._torch_run import run_backward, run_forward


def unpack(q: Any, packed: Any) -> tuple[Any, Any, Any]:
    """Returns q, k and v of (q, kv) or (None, qkv). The dimension before the heads tells them apart."""
    parts = packed.unbind(-3)
    return parts if q is None else (q, *parts)


def _new(like: Any, cu_seqlens: Any, seqused: Any) -> Any:
    """Returns contiguous memory, zeros if rows may belong to no sequence."""
    make = like.new_zeros if rows_may_be_unused(cu_seqlens, seqused) else like.new_empty
    return make(like.shape)


class _Packed(torch.autograd.Function):
    """Writes dq, dk and dv into slices of the returned gradient, so that no copy is needed."""

    @staticmethod
    def forward(ctx: Any, q: Any, packed: Any, deterministic: bool, options: Options) -> Any:
        ctx.set_materialize_grads(False)
        out, lse = run_forward(*unpack(q, packed), None, True, options)
        ctx.save_for_backward(q, packed, out, lse)
        ctx.deterministic = deterministic
        ctx.options = options
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, d_out: Any, d_lse: Any) -> Any:
        q, packed, out, lse = ctx.saved_tensors
        o = ctx.options
        unused_q, unused_k = (o.cu_seqlens_q, o.seqused_q), (o.cu_seqlens_k, o.seqused_k)
        d_q = _new(q, *unused_q) if ctx.needs_input_grad[0] else None
        d_packed = _new(packed, *unused_k) if ctx.needs_input_grad[1] else None
        parts = (None, None) if d_packed is None else d_packed.unbind(-3)
        made = (*(parts if q is None else (d_q, *parts)), None)
        run_backward(d_out, d_lse, *unpack(q, packed), out, lse, None, ctx.deterministic, o, made)
        return d_q, d_packed, None, None


def attend_packed(q: Any, packed: Any, options: tuple[Any, ...], deterministic: bool, return_lse: bool) -> Any:
    """Returns _flash_call.attend() of (q, kv), or of (None, qkv)."""
    head_dim = packed.shape[-1]
    if head_dim % 8 != 0:
        q, packed = None if q is None else pad_head_dim(q), pad_head_dim(packed)
        options = with_scale(options, head_dim)
    parts = unpack(q, packed)
    differentiates = torch.is_grad_enabled() and (parts[0].requires_grad or packed.requires_grad)
    if differentiates and not torch.compiler.is_compiling() and _torch.is_plain(*parts):
        _torch.require_gradients(*parts, options)
        found = _torch.prepared(packed, Options(*options))
        out, lse = _Packed.apply(q, packed, _torch.wants_bits(deterministic), found)  # type: ignore[no-untyped-call]
    else:  # autograd of unbind() assembles the gradient
        out, lse = _torch.attend(*parts, None, True, deterministic, False, options)
    out = out[..., :head_dim]
    return (out, lse) if return_lse else out
