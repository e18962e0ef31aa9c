"""Rotary embedding by operators of PyTorch, with the functions of flash_attn.layers.rotary. All differentiable.

fa2.append() turns keys and queries in the kernel that writes a cache; this is for everything else.
"""

from __future__ import annotations

from typing import Any

import torch


def _positions(x: torch.Tensor, offsets: int | torch.Tensor, cu_seqlens: torch.Tensor | None) -> torch.Tensor:
    """(seqlen), (batch, seqlen) or (total): of each row of x, in the tables; 0 in rows of no sequence."""
    rows = torch.arange(x.shape[-3], device=x.device)
    if cu_seqlens is None:
        return rows + (offsets[:, None] if isinstance(offsets, torch.Tensor) else offsets)
    batch = cu_seqlens.shape[0] - 1
    sequence = (torch.searchsorted(cu_seqlens, rows, right=True) - 1).clamp(max=batch - 1)
    places = rows - cu_seqlens[sequence] + (offsets[sequence] if isinstance(offsets, torch.Tensor) else offsets)
    return torch.where(rows < cu_seqlens[batch], places, 0)


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """x (..., heads, rotary_dim) by angles (..., 1, rotary_dim / 2), in float32, rounded once."""
    x0, x1 = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = (x0 * cos - x1 * sin, x0 * sin + x1 * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


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
    """x with its first rotary_dim columns turned by its rows' positions.

    x: (batch, seqlen, heads, head_dim), or (total, heads, head_dim) with cu_seqlens int32 (batch + 1). cos, sin:
    (positions, rotary_dim / 2). interleaved: columns 2 i and 2 i + 1 turn together, else i and i + rotary_dim / 2.
    inplace: into x, which is returned. seqlen_offsets: the first rows' position, a number or (batch). max_seqlen is
    accepted. Positions beyond the tables are an error.
    """
    half = cos.shape[-1]
    if sin.shape != cos.shape or 2 * half > x.shape[-1]:
        raise ValueError("cos and sin must be (positions, rotary_dim / 2) with rotary_dim up to head_dim")
    if cu_seqlens is None and isinstance(seqlen_offsets, int):
        if seqlen_offsets + x.shape[1] > cos.shape[0]:
            raise ValueError(f"cos has {cos.shape[0]} positions, {seqlen_offsets + x.shape[1]} are needed")
        places: Any = slice(seqlen_offsets, seqlen_offsets + x.shape[1])
    else:
        places = _positions(x, seqlen_offsets, cu_seqlens)
    cos, sin = (table[places].unsqueeze(-2).float() for table in (cos, sin))
    turned = _turn(x[..., : 2 * half].float(), cos, sin, interleaved).to(x.dtype)
    if inplace:
        x[..., : 2 * half] = turned
        return x
    return turned if 2 * half == x.shape[-1] else torch.cat((turned, x[..., 2 * half :]), -1)


apply_rotary_emb_func = apply_rotary_emb


def apply_rotary_emb_torch(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False
) -> torch.Tensor:
    """apply_rotary_emb() of x (batch, seqlen, heads, head_dim) from position 0 on."""
    return apply_rotary_emb(x, cos[: x.shape[1]], sin[: x.shape[1]], interleaved)


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
    """Turns queries and keys in place: qkv (batch, seqlen, 3, heads, head_dim), or with num_heads_q (batch, seqlen,
    heads + 2 heads_kv, head_dim). cos_k, sin_k: other tables for the keys."""
    if qkv.dim() == 5:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    elif num_heads_q is None:
        raise ValueError("qkv of (batch, seqlen, heads + 2 heads_kv, head_dim) needs num_heads_q, its heads")
    else:
        q, k = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : (qkv.shape[2] + num_heads_q) // 2]
    apply_rotary_emb(q, cos, sin, interleaved, True, seqlen_offsets)
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    apply_rotary_emb(k, cos_k, sin_k, interleaved, True, seqlen_offsets)
    return qkv


def apply_rotary_emb_kv_(
    kv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    seqlen_offsets: int | torch.Tensor = 0,
) -> torch.Tensor:
    """Turns keys in place: kv (batch, seqlen, 2, heads_kv, head_dim)."""
    apply_rotary_emb(kv[:, :, 0], cos, sin, interleaved, True, seqlen_offsets)
    return kv


class RotaryEmbedding(torch.nn.Module):
    """Tables of angles position * base**(-2 i / dim), grown as sequences do, applied in place.

    scale_base: with a number, xPos: queries' tables grow with the position by ((2 i / dim + 0.4) / 1.4) **
    ((position - half) / scale_base), and keys' shrink.
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
        """cos and sin of queries and of keys, (seqlen or more, dim / 2), of like's dtype and device."""
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
        """qkv turned in place, as apply_rotary_emb_qkv_(); or with kv (batch, seqlen, 2, heads_kv, head_dim) qkv is q,
        and (q, kv) is returned. A seqlen_offset that is a tensor needs max_seqlen, the most positions."""
        if max_seqlen is None:
            if isinstance(seqlen_offset, torch.Tensor):
                raise ValueError("a seqlen_offset that is a tensor needs max_seqlen")
            max_seqlen = qkv.shape[1] + seqlen_offset
        cos, sin, cos_k, sin_k = self._tables_for(max_seqlen, qkv)
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv, cos, sin, cos_k, sin_k, self.interleaved, seqlen_offset, num_heads_q
            )
        q = apply_rotary_emb(qkv, cos, sin, self.interleaved, True, seqlen_offset)
        return q, apply_rotary_emb_kv_(kv, cos_k, sin_k, self.interleaved, seqlen_offset)
