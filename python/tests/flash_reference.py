"""Computes attention by PyTorch's operators, in float32 or in the operands' own dtype.

FlashAttention's criterion holds fa2's error against the former to a multiple of the latter's error.
"""

from __future__ import annotations

import math
from typing import Any

import torch


def hidden_keys(
    rows: torch.Tensor,
    columns: torch.Tensor,
    causal: bool,
    window: tuple[int, int],
    seqlen_q: int,
    seqlen_k: int,
    chunk: int = 0,
) -> torch.Tensor:
    """Returns the visible keys, bool (batch, 1, seqlen_q, seqlen_k). `rows` and `columns`, (batch), count each
    sequence's queries and keys."""
    i = torch.arange(seqlen_q, device=rows.device)[None, :, None]
    j = torch.arange(seqlen_k, device=rows.device)[None, None]
    n, m = rows[:, None, None], columns[:, None, None]
    left, right = window[0], 0 if causal else window[1]
    hidden = (j >= m) | (i >= n)
    if left >= 0:
        hidden = hidden | (j < i + m - n - left)
    if right >= 0:
        hidden = hidden | (j > i + m - n + right)
    if chunk > 0:
        hidden = hidden | (j.div(chunk, rounding_mode="floor") != (i + m - n).div(chunk, rounding_mode="floor"))
    return hidden[:, None]


def bias_of(slopes: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Returns float32 (batch, heads, seqlen_q, seqlen_k)."""
    i = torch.arange(shape[-2], device=slopes.device)[None, None, :, None]
    j = torch.arange(shape[-1], device=slopes.device)
    n, m = (x[:, None, None, None] for x in (rows, columns))
    slopes = slopes[None] if slopes.dim() == 1 else slopes
    return -slopes[..., None, None] * (i + m - n - j).abs()


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    rows: Any = None,
    columns: Any = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    chunk: int = 0,
    softcap: float = 0.0,
    slopes: Any = None,
    dropout_p: float = 0.0,
    keep: Any = None,
    low_precision: bool = False,
) -> tuple[Any, Any]:
    """Returns (out, probabilities before dropout) in q's dtype. q, k and v are (batch, seqlen, heads, dim).

    low_precision: computes in q's dtype and scales k instead of q, as a model without fused attention might.
    """
    dtype = q.dtype
    batch, seqlen_q, seqlen_k = q.shape[0], q.shape[1], k.shape[1]
    rows = torch.full((batch,), seqlen_q, device=q.device) if rows is None else rows
    columns = torch.full((batch,), seqlen_k, device=q.device) if columns is None else columns
    if not low_precision:
        q, k, v = q.float(), k.float(), v.float()
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scale = q.shape[-1] ** -0.5
    scores = torch.einsum("bthd,bshd->bhts", *((q, k * scale) if low_precision else (q * scale, k)))
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    hidden = hidden_keys(rows, columns, causal, window, seqlen_q, seqlen_k, chunk)
    scores = scores.masked_fill(hidden, -math.inf)
    if slopes is not None:
        scores = scores + bias_of(slopes, rows, columns, scores.shape)
    empty = hidden.all(-1, keepdim=True)
    p = scores.masked_fill(empty, 0.0).softmax(-1).to(v.dtype).masked_fill(empty, 0.0)
    dropped = p if keep is None else p.masked_fill(~keep, 0.0)
    out = torch.einsum("bhts,bshd->bthd", dropped, v / (1 - dropout_p))
    return out.to(dtype), p.to(dtype)
