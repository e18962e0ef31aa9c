"""Computes attention with masks of any pattern or with a position bias by PyTorch's operations."""

from __future__ import annotations

from typing import Any

import torch

from ._lengths import Lengths, are_lengths
from ._packing import is_packed


def pattern_of(
    q: torch.Tensor,
    k: torch.Tensor,
    mask: torch.Tensor | None,
    position_bias: torch.Tensor | None,
    numbers: dict[str, Any],
) -> torch.Tensor:
    """Returns numbers to add to scores, (batch, heads, seqlen_q, seqlen_k), or bool: which keys are visible."""
    if mask is not None and are_lengths(mask) and is_packed(mask):
        raise NotImplementedError("position_bias = given, must be None for packed sequences on fa2")
    if mask is None or are_lengths(mask):
        mask = _visible(q, k, None if mask is None else Lengths.of_mask(mask), numbers)
    elif mask.ndim == 2:
        mask = mask[:, None, None].bool() & _visible(q, k, None, numbers)
    elif mask.ndim != 4 or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise ValueError(
            f"attention_mask = {mask.dtype} {tuple(mask.shape)}, must be bool or numbers to add, (batch, heads, seqlen_q, "
            "seqlen_k), or (batch, seqlen_k): which keys count"
        )
    mask = mask[..., : k.shape[1]]
    if position_bias is None:
        return mask
    bias = position_bias[..., : k.shape[1]].to(q.dtype)
    return bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask


def _visible(
    q: torch.Tensor, k: torch.Tensor, lengths: Lengths | None, numbers: dict[str, Any]
) -> torch.Tensor:
    """Returns the keys that attention() would see: bool (1 or batch, 1, seqlen_q, seqlen_k)."""
    i = torch.arange(q.shape[1], device=q.device)[:, None]
    j = torch.arange(k.shape[1], device=q.device)[None]
    used_q, used_k, start = (torch.tensor(n, device=q.device) for n in (q.shape[1], k.shape[1], 0))
    if lengths is not None:
        used_k = lengths.used_k[:, None, None, None]
        if lengths.used_q is not None:
            used_q = lengths.used_q[:, None, None, None]
        if lengths.start is not None:
            start = lengths.start[:-1, None, None, None]
    visible = (i < used_q) & (j >= start) & (j < start + used_k)
    distance = i + start + used_k - used_q - j
    left, right = numbers.get("window_size", (-1, -1))
    if left >= 0:
        visible = visible & (distance <= left)
    if numbers["causal"] or right >= 0:
        visible = visible & (distance >= (0 if numbers["causal"] else -right))
    return visible if visible.ndim == 4 else visible[None, None]


def attend_pattern(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: torch.Tensor, numbers: dict[str, Any]
) -> torch.Tensor:
    """Computes by scaled_dot_product_attention, or with materialised scores if there are softcap or sinks."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
    scale, dropout_p, sinks = (numbers[name] for name in ("softmax_scale", "dropout_p", "sinks"))
    if not numbers["softcap"] and sinks is None:
        if pattern.dtype != torch.bool:
            pattern = pattern.to(q.dtype)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, pattern, dropout_p, scale=scale)
        return out.transpose(1, 2)
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    if numbers["softcap"]:
        scores = (scores / numbers["softcap"]).tanh() * numbers["softcap"]
    if pattern.dtype == torch.bool:
        scores = scores.masked_fill(~pattern, torch.finfo(scores.dtype).min)
    else:
        scores = scores + pattern
    if sinks is not None:
        column = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, column), -1)
    weights = torch.nn.functional.dropout(scores.softmax(-1), dropout_p)[..., : k.shape[2]]
    return (weights.to(v.dtype) @ v).transpose(1, 2)
