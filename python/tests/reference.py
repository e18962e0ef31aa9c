"""Computes attention in float64 by numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: str | None = None,
    window: tuple[int, int] = (-1, -1),
    chunk: int = 0,
    softcap: float = 0.0,
    slopes: Any = None,
    sinks: Any = None,
) -> tuple[Any, Any]:
    """Returns (out, lse) of one sequence: q (rows, heads, dim), k and v (keys, heads_kv, dim)."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    rows, keys = scores.shape[1:]
    place = np.arange(rows)[:, None] + (0 if mask == "top_left" else keys - rows)
    distance = np.arange(keys)[None] - place
    if slopes is not None:
        bottom_right = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
        scores = scores - np.asarray(slopes, np.float64)[:, None, None] * abs(bottom_right)
    visible = np.ones((rows, keys), bool)
    if mask is not None:
        visible &= distance <= 0
    if window[0] >= 0:
        visible &= distance >= -window[0]
    if window[1] >= 0:
        visible &= distance <= window[1]
    if chunk > 0:
        visible &= place // chunk == (place + distance) // chunk
    scores = np.where(visible, scores, -np.inf)
    joined = scores
    if sinks is not None:
        sink = np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], (*scores.shape[:2], 1))
        joined = np.concatenate([scores, sink], -1)
    top = np.maximum(joined.max(-1, initial=-np.inf), -1e300)
    total = np.exp(joined - top[..., None]).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.where(total > 0, np.log(total) + top, np.inf)
        p = np.where(np.isinf(lse)[..., None], 0, np.exp(scores - lse[..., None]))
    return np.einsum("hij,jhd->ihd", p, v), lse


def batched(q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, Any]:
    parts = [attention(*entry, **options) for entry in zip(q, k, v)]
    return np.stack([out for out, _ in parts]), np.stack([lse for _, lse in parts])
