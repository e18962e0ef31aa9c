"""Rotary embedding by PyTorch's operators, with the functions of flash_attn.layers.rotary. All are differentiable.

fa2.append() rotates keys and queries in the kernel that writes a cache. This module is for everything else.
"""

from __future__ import annotations

from typing import Any

import torch


def _positions(x: torch.Tensor, offsets: int | torch.Tensor, cu_seqlens: torch.Tensor | None) -> torch.Tensor:
    """Returns the position of each row of x in the tables, (seqlen), (batch, seqlen) or (total); 0 for rows of no sequence."""
    rows = torch.arange(x.shape[1 if cu_seqlens is None else 0], device=x.device)
    if cu_seqlens is None:
        return rows + (offsets[:, None] if isinstance(offsets, torch.Tensor) else offsets)
    batch = cu_seqlens.shape[0] - 1
    sequence = (torch.searchsorted(cu_seqlens, rows, right=True) - 1).clamp(max=batch - 1)
    places = rows - cu_seqlens[sequence] + (offsets[sequence] if isinstance(offsets, torch.Tensor) else offsets)
    return torch.where(rows < cu_seqlens[batch], places, 0)


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Returns x (..., heads, rotary_dim) rotated by angles (..., 1, rotary_dim / 2), computed in float32 and rounded once."""
    cos, sin, wide = cos.float(), sin.float(), x.float()
    x0, x1 = (wide[..., 0::2], wide[..., 1::2]) if interleaved else wide.chunk(2, -1)
    turned = (x0 * cos - x1 * sin, x0 * sin + x1 * cos)
    return (torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)).to(x.dtype)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Returns a new tensor: x with its first rotary_dim columns rotated."""
    width = 2 * cos.shape[-1]
    turned = _turn(x[..., :width], cos, sin, interleaved)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)


def _angles(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    offsets: int | torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the entries of cos and sin for x's rows, (..., 1, rotary_dim / 2). They are views if positions are consecutive."""
    if sin.shape != cos.shape or 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(
            f"cos.shape = {tuple(cos.shape)} and sin.shape = {tuple(sin.shape)}, must both be (positions, rotary_dim / 2) with "
            f"rotary_dim up to head_dim = {x.shape[-1]}"
        )
    if cu_seqlens is None and isinstance(offsets, int):
        if offsets + x.shape[1] > cos.shape[0]:
            raise ValueError(f"cos.shape[0] = {cos.shape[0]}, must be at least {offsets + x.shape[1]} positions: pass longer tables")
        places: Any = slice(offsets, offsets + x.shape[1])
    else:
        places = _positions(x, offsets, cu_seqlens)
    return cos[places].unsqueeze(-2), sin[places].unsqueeze(-2)


#: Which heads are rotated: an index of dimension 2, or `...` for all of them.
_Heads = Any


def _turn_heads(
    x: torch.Tensor, heads: tuple[_Heads, ...], tables: tuple[torch.Tensor, ...], interleaved: bool, back: bool
) -> None:
    """Rotates these heads of x in place, each by its cos and sin in `tables`. back: by the negative angles."""
    for which, cos, sin in zip(heads, tables[0::2], tables[1::2]):
        part = x[:, :, which][..., : 2 * cos.shape[-1]]
        part.copy_(_turn(part, cos, -sin if back else sin, interleaved))


class _TurnInPlace(torch.autograd.Function):
    """Rotates heads in x's own memory. The result aliases x. Its gradient, rotated back, is x's gradient.

    Autograd does not see that x changes, as in flash_attn. Otherwise autograd would refuse leaves, views of leaves, and
    results of unbind() and split(). It would also refuse a rotated q as soon as k, a view of the same base, is rotated.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, heads: tuple[_Heads, ...], interleaved: bool, *tables: Any) -> Any:
        _turn_heads(x.data, heads, tables, interleaved, back=False)  # .data has another version counter
        ctx.save_for_backward(*tables)
        ctx.heads, ctx.interleaved = heads, interleaved
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = gradients[0].clone()  # autograd may have given it to other functions too
        _turn_heads(gradient, ctx.heads, ctx.saved_tensors, ctx.interleaved, back=True)
        return gradient, None, None, *(None for _ in ctx.saved_tensors)


def _turn_in_place(x: torch.Tensor, heads: tuple[_Heads, ...], interleaved: bool, *tables: torch.Tensor) -> torch.Tensor:
    """Rotates these heads, each by its cos and sin in `tables`. Returns x, or an alias of x if it has a gradient."""
    if torch.is_grad_enabled() and x.requires_grad:
        turned: torch.Tensor = _TurnInPlace.apply(x, heads, interleaved, *tables)  # type: ignore[no-untyped-call, unused-ignore]
        return turned
    _turn_heads(x, heads, tables, interleaved, back=False)
    return x


def apply_rotary_emb(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | torch.Tensor = 0,
    cu_seqlens: torch.Tensor | None = None,
    max_seqlen: int | None = None,
) -> torch.Tensor:
    """Returns x with its first rotary_dim columns rotated by the positions of its rows.

    x: (batch, seqlen, heads, head_dim), or (total, heads, head_dim) with cu_seqlens int32 (batch + 1). cos, sin:
    (positions, rotary_dim / 2). interleaved: columns 2 i and 2 i + 1 form a pair, else i and i + rotary_dim / 2.
    inplace: in x's memory; x may be a leaf, and gradients reach only x. Use the result afterwards, not x, because autograd
    knows only there of the rotation. seqlen_offsets: the position of the first rows, a number or (batch). max_seqlen is
    accepted and ignored. Positions beyond the tables are an error.
    """
    angles = _angles(x, cos, sin, seqlen_offsets, cu_seqlens)
    return _turn_in_place(x, (...,), interleaved, *angles) if inplace else _turned(x, *angles, interleaved)


apply_rotary_emb_func = apply_rotary_emb


def apply_rotary_emb_torch(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False
) -> torch.Tensor:
    """Returns x (batch, seqlen, heads, head_dim) rotated: row i by row i of cos and sin, (seqlen, rotary_dim / 2) or
    (batch, seqlen, rotary_dim / 2)."""
    cos, sin = (table[..., : x.shape[1], :].unsqueeze(-2) for table in (cos, sin))
    return _turned(x, cos, sin, interleaved)


def apply_rotary_emb_qkv_(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    cos_k: torch.Tensor | None = None,
    sin_k: torch.Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | torch.Tensor = 0,
    num_heads_q: int | None = None,
) -> torch.Tensor:
    """Rotates queries and keys of qkv in place and returns it, as apply_rotary_emb(inplace=True) does.

    qkv: (batch, seqlen, 3, heads, head_dim), or with num_heads_q (batch, seqlen, heads + 2 heads_kv, head_dim). cos_k,
    sin_k: other tables for the keys.
    """
    if qkv.dim() == 5:
        heads: tuple[_Heads, ...] = (0, 1)
    elif num_heads_q is None:
        raise ValueError("num_heads_q = None, must be the number of query heads of qkv (batch, seqlen, heads + 2 heads_kv, head_dim)")
    else:
        heads = slice(num_heads_q), slice(num_heads_q, (qkv.shape[2] + num_heads_q) // 2)
    queries = _angles(qkv, cos, sin, seqlen_offsets)
    apart = cos_k is not None or sin_k is not None
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    keys = _angles(qkv, cos_k, sin_k, seqlen_offsets) if apart else queries
    return _turn_in_place(qkv, heads, interleaved, *queries, *keys)


def apply_rotary_emb_kv_(
    kv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    seqlen_offsets: int | torch.Tensor = 0,
) -> torch.Tensor:
    """Rotates the keys of kv (batch, seqlen, 2, heads_kv, head_dim) in place, as apply_rotary_emb(inplace=True) does."""
    return _turn_in_place(kv, (0,), interleaved, *_angles(kv, cos, sin, seqlen_offsets))


class RotaryEmbedding(torch.nn.Module):
    """Rotates in place by the angles position * base**(-2 i / dim). Its tables grow with the sequences.

    scale_base: a number for xPos, which multiplies the tables of queries by ((2 i / dim + 0.4) / 1.4) **
    ((position - half) / scale_base), and divides those of keys by it.
    """

    inv_freq: torch.Tensor

    def __init__(
        self,
        dim: int,
        base: float = 10000.0,
        interleaved: bool = False,
        scale_base: float | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.dim, self.base, self.interleaved, self.scale_base = dim, float(base), interleaved, scale_base
        steps = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
        self.register_buffer("inv_freq", self.base ** (-steps / dim), persistent=False)
        scale = None if scale_base is None else (steps / dim + 0.4) / 1.4
        self.register_buffer("scale", scale, persistent=False)
        self._tables: tuple[torch.Tensor, ...] = ()

    def _tables_for(self, seqlen: int, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns cos and sin for queries, then for keys, (seqlen or more, dim / 2), with the dtype and device of `like`."""
        made = self._tables[0] if self._tables else None
        if made is not None and len(made) >= seqlen and made.dtype == like.dtype and made.device == like.device:
            return self._tables
        positions = torch.arange(seqlen, device=like.device, dtype=torch.float32)
        angles = positions[:, None] * self.inv_freq.to(like.device, torch.float32)
        cos, sin = angles.cos(), angles.sin()
        keys = cos, sin
        if isinstance(self.scale, torch.Tensor):
            assert self.scale_base is not None
            powers = (positions - seqlen // 2) / self.scale_base
            scale = self.scale.to(like.device) ** powers[:, None]
            cos, sin, keys = cos * scale, sin * scale, (cos / scale, sin / scale)
        self._tables = tuple(x.to(like.dtype) for x in (cos, sin, *keys))
        return self._tables

    def forward(
        self,
        qkv: torch.Tensor,
        kv: torch.Tensor | None = None,
        seqlen_offset: int | torch.Tensor = 0,
        max_seqlen: int | None = None,
        num_heads_q: int | None = None,
    ) -> Any:
        """Rotates qkv in place, as apply_rotary_emb_qkv_(). With kv (batch, seqlen, 2, heads_kv, head_dim), qkv is q, and
        (q, kv) is returned. If seqlen_offset is a tensor, max_seqlen must be the number of positions."""
        if max_seqlen is None:
            if isinstance(seqlen_offset, torch.Tensor):
                raise ValueError("max_seqlen = None, must be the number of positions if seqlen_offset is a tensor")
            max_seqlen = qkv.shape[1] + seqlen_offset
        cos, sin, cos_k, sin_k = self._tables_for(max_seqlen, qkv)
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv, cos, sin, cos_k, sin_k, self.interleaved, seqlen_offset, num_heads_q
            )
        q = apply_rotary_emb(qkv, cos, sin, self.interleaved, True, seqlen_offset)
        return q, apply_rotary_emb_kv_(kv, cos_k, sin_k, self.interleaved, seqlen_offset)
